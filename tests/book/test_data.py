"""The files of the page "Data": every field is explained, the lines of Python read them, equal results give equal bytes."""

import hashlib
import io
import re
import zipfile
from types import SimpleNamespace

import mocks
import pandas as pd
import pytest
import xarray as xr

from classwise.book import data as files
from classwise.core import paths, results
from classwise.core.spec import Evaluation, Spec
from classwise.papers.sections import Request
from classwise.runs import artifacts, ensure, load, store
from classwise.runs.recorded import CONVERGENCE, convergence_file

ATTACK = Evaluation(attack="square", options={"queries": 20}, eps="51/255")


@pytest.fixture
def folder(data, small, tmp_path, monkeypatch):
    """The files of a book of one run with two evaluations and examples, and a comparison of epochs."""
    request = Request((small,), (Evaluation(), ATTACK))
    load.outcomes(request, workers=1)
    artifacts.examples(small, ATTACK)
    monkeypatch.setattr(files, "registry", SimpleNamespace(SECTIONS=("only",), request=lambda section, scale: request))
    monkeypatch.setattr(files, "scales_beside", lambda scale: [])
    results.save(mocks.dataset("convergence 1"), CONVERGENCE, convergence_file("quick"))
    assert files.write_files("quick", tmp_path / "files")
    return tmp_path / "files"


def table(folder, name):
    path = folder / files.file_names()[name]
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, keep_default_na=False)


def inside(folder):
    """Return the contents of the archive by their names."""
    with zipfile.ZipFile(folder / files.file_names()["results.zip"]) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sums(text):
    """Return the checksums by the names of files."""
    return dict(reversed(line.split("  ")) for line in text.splitlines())


def of(contents):
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def explained(kind):
    """Return the fields that the dictionary explains of a kind of file."""
    known = files.dictionary()
    return known.field[known.file.str.contains(kind, regex=False)].tolist()


def test_every_column_is_in_the_dictionary_and_has_a_meaning(folder):
    assert list(table(folder, "outcomes.parquet")) == explained(files.OUTCOMES)
    assert set(table(folder, "catalogue.csv")) == set(explained(files.CATALOGUE))
    assert (files.dictionary()[["meaning", "source"]] != "").all(axis=None)
    assert table(folder, "dictionary.csv").equals(files.dictionary())


def test_every_variable_coordinate_and_attribute_of_netcdf_is_in_the_dictionary(folder):
    contents = {name: content for name, content in inside(folder).items() if name.endswith(".nc")}
    assert len(contents) == 5
    assert sum("/examples/" in name for name in contents) == 1
    for content in contents.values():
        stored = xr.open_dataset(io.BytesIO(content), engine="h5netcdf")
        assert set(stored.data_vars) <= set(explained(f"{stored.attrs['schema']} (netCDF)"))
        assert set(stored.coords) <= set(explained("coordinates (netCDF)"))
        assert set(stored.attrs) <= set(explained("attributes (netCDF)"))
        assert {"spec", "commit", "device", "created"} <= set(stored.attrs)
    for schema, known in results.SCHEMAS.items():
        assert {results.STORED_NAMES.get(name, name) for name in known} <= set(explained(f"{schema} (netCDF)"))


def test_outcomes_have_a_row_for_each_image_and_evaluation(folder, small):
    rows = table(folder, "outcomes.parquet")
    for evaluation in (Evaluation(), ATTACK):
        stored = store.Key(small, store.OUTCOMES, evaluation).read()
        some = rows[rows.evaluation == evaluation.resolve_for(small).id]
        assert some.image.tolist() == stored.image.values.tolist()
        assert some.label.tolist() == stored.predicted.values[stored.truth.values].tolist()
        assert some.prediction.tolist() == stored.predicted.values[stored.prediction.values].tolist()
        assert (some.correct == (some.label.astype(str) == some.prediction.astype(str))).all()
        assert some.queries.isna().all() == (evaluation.attack == "clean")
    attacked = rows[rows.attack == "square"]
    assert attacked.eps.unique().tolist() == [0.2]
    assert attacked.attack_options.unique().tolist() == ['{"queries": 20}']
    assert rows.run.unique().tolist() == [small.id]


def test_the_lines_of_python_of_the_page_read_the_files(folder, monkeypatch):
    page = files.page(folder)
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(lines.strip().splitlines()) <= 6
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    exec(lines, names)
    assert len(names["outcomes"]) > 700
    assert Spec.from_json(names["result"].attrs["spec"]).dataset == "digits"


def test_the_page_offers_each_file_with_its_checksum_and_the_archive_holds_those_of_its_files_its_licence_and_its_sources(folder):
    page, written = files.page(folder), of({name: (folder / name).read_bytes() for name in files.file_names().values()})
    assert sums((folder / files.CHECKSUMS).read_text()) == written
    for name, digest in written.items():
        assert f'href="data/{name}"' in page
        assert f"{digest}  {name}" in page
    contents = inside(folder)
    own = contents.pop(files.CHECKSUMS).decode()
    assert sums(own) == of(contents)
    listed = table(folder, "catalogue.csv")
    assert dict(zip(listed.file, listed.sha256, strict=True)) == {k: one for k, one in of(contents).items() if k.endswith(".nc")}
    assert contents["LICENSE"] == (paths.checkout() / "LICENSE").read_bytes()
    sources = contents["SOURCES.md"].decode()
    assert all(dataset in sources for dataset in ("digits", "cifar10"))
    assert sources.strip() in page


def test_files_that_a_stopped_call_left_or_that_are_missing_are_written_again(folder, monkeypatch):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    texts, write, written = files._texts(), files.write, []

    def full(path, content):
        if written:
            raise OSError("stopped")
        written.append(path)
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_texts", lambda: texts | {"LICENSE": b"another"})
        patch.setattr(files, "write", full)
        with pytest.raises(OSError, match="stopped"):
            files.write_files("quick", folder)
    assert files.write_files("quick", folder)
    for path, content in before.items():
        assert path.read_bytes() == content
        path.unlink()
        assert files.write_files("quick", folder), path
    assert not files.write_files("quick", folder)


def test_equal_results_give_equal_bytes_and_are_written_again_when_a_meaning_changes(folder, tmp_path, monkeypatch):
    assert not files.write_files("quick", folder)
    assert files.write_files("quick", tmp_path / "again")
    for name in files.file_names().values():
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    assert "name of the images" in files.field_meanings(Spec)["dataset"]
    monkeypatch.setattr(Spec, "__doc__", Spec.__doc__.replace("name of the images", "name of all images"))
    assert files.write_files("quick", folder)
    assert any("name of all images" in meaning for meaning in table(folder, "dictionary.csv")["meaning"])


def test_the_archive_unpacked_in_a_data_folder_takes_the_place_of_computing(folder, small, tmp_path, monkeypatch):
    with zipfile.ZipFile(folder / files.file_names()["results.zip"]) as archive:
        archive.extractall(tmp_path / "other")
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "other"))
    monkeypatch.setattr(ensure, "ensure_results", lambda pairs, workers: pytest.fail("something is computed"))
    assert load.outcomes([small], [Evaluation(), ATTACK]).sizes["attack"] == 2
