"""Whether two checkouts compute the same results, bit for bit, on one machine: `python -m benchmarks.same OLD NEW`.

Every defence is trained for an epoch and every attack evaluated on a few images, with examples, features, a trace, rebuilt images
and an audit. The files of both are compared without times and dates. Bits depend on the processor: nothing is stored.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

# Options that make an attack or a defence quick.
_QUICK = {"steps": 3, "queries": 20, "search_steps": 2, "samples": 4, "iterations": 3}


def compute() -> None:
    """Compute everything into the data folder of CLASSWISE_DATA, by the functions that notebooks call."""
    from dataclasses import fields

    import torch

    from classwise import attacks, defences, runs
    from classwise.core.spec import Evaluation, Spec

    torch.set_num_threads(1)
    few = {"per_class": 4}
    base = Spec(dataset="digits", eps="0.2", width=4, epochs=1, attack="pgd-10", attack_options={"steps": 2}, train_per_class=40)
    clean = Evaluation(attack="clean", **few)

    def quick(attack: object) -> dict[str, int]:
        return {name: value for name, value in _QUICK.items() if name in {one.name for one in fields(attack)}}  # type: ignore[arg-type]

    for name in defences.DEFENCES:
        plain = replace(base, defence=name, averages=("ema", "fawa"), select="pgd-10")
        inner = defences.build(name).attack
        spec = plain if inner in ("pgd-10",) else replace(plain, attack=None, attack_options={})
        _tell(
            name,
            lambda spec=spec: runs.outcomes([spec], [clean, Evaluation(attack="pgd-20", checkpoint="best", **few)], workers=1),
        )
    for name in attacks.ATTACKS:
        for norm in ("linf", "l2"):
            options = quick(attacks.build(name))
            one = Evaluation(attack=name, options=options, norm=norm, eps="0.2" if norm == "linf" else "1", per_class=2)
            _tell(f"{name} {norm}", lambda one=one: runs.outcomes([base], [one], workers=1))
    for form in (
        "gaussian-noise",
        "glass-blur",
        "snow",
        "frost",
        "fog-2",
        "elastic-transform",
        "jpeg-compression",
        "spatter",
        "nearly-grey",
    ):
        _tell(form, lambda form=form: runs.outcomes([base], [replace(clean, transform=form)], workers=1))
    _tell("examples", lambda: runs.examples(base, Evaluation(attack="pgd-20")))
    _tell("features", lambda: runs.features(base, Evaluation(attack="pgd-20")))
    _tell("traces", lambda: runs.traces([(base, [Evaluation(attack="pgd-20")])]))
    standard = replace(base, defence="standard", attack=None, attack_options={})
    for way in ("features", "next", "random"):
        _tell(way, lambda way=way: runs.rebuilt(replace(standard, rebuilt=way, images_by="pgd-at")))
    weights = next(Path(os.environ["CLASSWISE_DATA"]).rglob(f"pgd-at-{base.id}/weights.safetensors"))
    audit = runs.audit(str(weights), model="small-cnn", width=4, limit=30, attack="pgd-20", out=os.environ["CLASSWISE_DATA"])
    _tell("audit", lambda: runs.outcomes([audit], audit.evaluations))
    for model in ("resnet10-s2", "lenet", "preact-resnet18"):
        _tell(model, lambda model=model: runs.history([replace(base, model=model)], workers=1))


def _tell(name: str, call: object) -> None:
    """Call a function; an error is printed, and compared with that of the other checkout."""
    try:
        call()  # type: ignore[operator]
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}".replace(os.environ["CLASSWISE_DATA"], "DATA"), flush=True)


def contents(data: Path) -> Iterator[tuple[str, str]]:
    """Yield the path of each result below a data folder and a digest of it, without times and dates."""
    from classwise.core import netcdf

    for path in sorted(data.rglob("*.nc")):
        dataset = netcdf.read(path).drop_vars("seconds", errors="ignore")
        for name in ("created", "commit", "version"):
            dataset.attrs.pop(name, None)
        yield (
            str(path.relative_to(data)),
            hashlib.sha256(json.dumps(dataset.to_dict(), default=str, sort_keys=True).encode()).hexdigest(),
        )
    for path in sorted(data.rglob("*.safetensors")):
        yield str(path.relative_to(data)), hashlib.sha256(path.read_bytes()).hexdigest()


def main(old: str, new: str) -> int:
    """Compare two checkouts; return 1 if anything differs."""
    found: list[tuple[dict[str, str], str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, checkout in enumerate((old, new)):
            data = Path(folder, str(number))
            env = os.environ | {"CLASSWISE_DATA": str(data), "PYTHONPATH": str(Path(checkout, "src").resolve())}
            command = [sys.executable, __file__, "compute"]
            done = subprocess.run(command, env=env, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True)
            found.append((dict(contents(data)), done.stdout))
            print(f"{checkout}: {len(found[-1][0])} results", flush=True)
    (before, said), (after, says) = found
    different = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    print("\n".join([f"differs: {name}" for name in different]) or "all are equal")
    if said != says:
        print(f"messages differ:\n{said}\n---\n{says}")
    return int(bool(different) or said != says or not before)


if __name__ == "__main__":
    if sys.argv[1:] == ["compute"]:
        compute()
    else:
        sys.exit(main(*sys.argv[1:]))
