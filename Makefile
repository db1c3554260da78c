SCALE ?= quick
PORT ?= 8000
PY := .venv/bin/python
UV := .venv/bin/uv
READY := .venv/.ready
AT_ONCE ?= -n logical --maxprocesses 8 --dist worksteal
TOOK := build/tests.seconds
ACCEPTED := test_golden test_answers test_invalid_input texts
TORCH := $(if $(TORCH_BACKEND),--torch-backend $(TORCH_BACKEND))

.DEFAULT_GOAL := help
.PHONY: help book zip test quick accept page notebook lab serve run bench converged picture lock clean

help: ## list these commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

$(READY): requirements.lock pyproject.toml benchmarks/peers.txt
	@command -v python3 >/dev/null || { echo "python3 is missing: install Python 3.11, 3.12 or 3.13"; exit 2; }
	@python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { echo "Python 3.11, 3.12 or 3.13 is needed, python3 is $$(python3 -V)"; exit 2; }
	@echo "setting up .venv"
	@test -x $(PY) || python3 -m venv .venv || { echo "python3 cannot make a virtual environment; on Debian: apt install python3-venv"; exit 2; }
	@$(PY) -m pip install --quiet --disable-pip-version-check uv
	@if [ -n "$(TORCH)" ]; then $(UV) pip install --python $(PY) --compile-bytecode $(TORCH) -c requirements.lock -e '.[book,test]'; \
	 else $(UV) pip install --quiet --compile-bytecode --python $(PY) -r requirements.lock && $(UV) pip install --python $(PY) --quiet --no-deps -e .; fi
	@$(UV) pip install --python $(PY) --quiet --no-deps -r benchmarks/peers.txt
	@touch $@

book: $(READY) ## compute what is missing and render the book (SCALE=quick)
	@$(PY) -m classwise book --scale $(SCALE)

zip: book ## pack the book as one file that opens without Python: build/classwise-book-VERSION.zip
	@$(PY) -m classwise zip

test: $(READY) ## ruff, mypy, and all tests, the built book in a browser among them
	@echo "ruff, mypy, then all tests$$(test -f $(TOOK) && echo ", about $$(cat $(TOOK)) s by the last run")"
	@began=$$(date +%s); $(PY) -m ruff check . && $(PY) -m ruff format --check . || exit 1; $(PY) -m mypy & types=$$!; \
	  $(PY) -m pytest $(AT_ONCE); tests=$$?; wait $$types || { echo "mypy found errors, see above"; exit 1; }; \
	  test $$tests -eq 0 && mkdir -p build && echo $$(($$(date +%s) - began)) > $(TOOK)

quick: $(READY) ## ruff, mypy, and the tests that take seconds: no browser, no kills, no clusters
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy && $(PY) -m pytest $(AT_ONCE) -m "not slow"

accept: $(READY) ## renew golden ids, answers and texts, and the table of contents; say why in the commit
	@for one in $(ACCEPTED); do echo $$one; PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(PY) -m tests.$$one || exit 1; done; \
	  $(PY) -c "from classwise.book import build; build.write_table_of_contents()"
	@git status --short tests/golden book/_toc.yml && git diff --stat tests/golden book/_toc.yml

page: $(READY) ## a new page with one claim, from templates: NAME=tian2021/7-new-question
	@test -n "$(NAME)" || { echo 'say which: make page NAME=tian2021/7-new-question'; exit 2; }
	@$(PY) -m classwise.book.new_page $(NAME)
	@$(PY) -m ruff check --quiet --fix src/classwise/papers && $(PY) -m ruff format --quiet src/classwise/papers
	@echo "next: make accept, then make notebook NB=$(NAME)"

notebook: $(READY) ## one notebook with other parameters: NB=tian2021/4-1-class-bias P="eps=0.1 seeds=[0,1]"
	@test -n "$(NB)" || { echo 'say which: make notebook NB=tian2021/4-1-class-bias P="seeds=[0]"; the names are those under notebooks/'; exit 2; }
	@$(PY) -m classwise render $(NB) $(if $(P),-p '$(P)')

lab: $(READY) ## the notebooks, live, with widgets
	@$(PY) -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) --LabApp.app_settings_dir='$(CURDIR)/.jupyter' notebooks

serve: $(READY) ## serve the built book (PORT=8000)
	@$(PY) -m classwise serve --port $(PORT)

run: $(READY) ## only compute the runs (SCALE=quick)
	@$(PY) -m classwise run --scale $(SCALE)

bench: $(READY) ## how fast the attacks are beside those of other packages: build/bench.json
	@$(PY) -m benchmarks.bench

converged: $(READY) ## train all networks with twice the epochs too, and record both (SCALE=quick)
	@$(PY) -m benchmarks.convergence --scale $(SCALE)

picture: $(READY) ## draw the pictures of README and of the guide: the first chart, the folders, and screens of the built book
	@$(PY) -m tests.picture

lock: $(READY) ## renew requirements.lock
	@$(UV) pip compile --quiet --universal --upgrade --python-version 3.11 --all-extras --no-annotate \
	  --custom-compile-command "make lock" pyproject.toml -o requirements.lock

clean: ## remove what was built; the environment and the runs stay
	rm -rf build
