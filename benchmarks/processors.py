"""How far results move with the instructions of the processor: `python -m benchmarks.processors NAME`.

Trains and attacks the same quick networks in processes that are restricted to older vector instructions, as other processors
have them, and writes how many predictions differ to data/recorded/processors/NAME.json.
"""

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated

import typer

from classwise import runs
from classwise.core.files import write
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation
from classwise.papers import registry
from classwise.runs import store
from classwise.runs.compute import device

DEFENCES, SEEDS = ("standard", "pgd-at", "trades"), (0, 1)
ATTACKS = ("clean", "pgd-20")
# Limits of torch's own kernels and of its library of convolutions.
LIMITS: dict[str, dict[str, str]] = {
    "all of the processor": {},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "SSE4.1": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}


def predictions() -> dict[str, list[list[int]]]:
    """Return by defence, seed and attack the label and the predicted class of each image; what is missing is computed."""
    result = {}
    for defence in DEFENCES:
        specs = [registry.training("quick", defence, seed) for seed in SEEDS]
        outcomes = runs.outcomes(specs, [Evaluation(attack=attack) for attack in ATTACKS]).sel(defence=defence)
        for seed in SEEDS:
            for attack in ATTACKS:
                part = outcomes.sel(seed=seed, attack=attack)
                part = part.where(part.truth >= 0, drop=True)
                result[f"{defence} {seed} {attack}"] = [
                    part.truth.astype(int).values.tolist(),
                    part.prediction.astype(int).values.tolist(),
                ]
    return result


def with_limits(limits: dict[str, str]) -> dict[str, list[list[int]]]:
    """Return what `predictions` returns in a process of its own with an empty data folder and these limits."""
    with tempfile.TemporaryDirectory() as folder:
        code = "import json; from benchmarks import processors as p; print(json.dumps(p.predictions()))"
        environment = {**os.environ, **limits, "CLASSWISE_DATA": folder}
        done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, list[list[int]]] = json.loads(done.stdout.splitlines()[-1])
    return result


def main(name: Annotated[str, typer.Argument(help="Of the file, such as epyc-2026-11-22.")]) -> None:
    """Compare the predictions of networks that were trained with fewer instructions with those of all instructions."""
    computed = {instructions: with_limits(limits) for instructions, limits in LIMITS.items()}
    rows = []
    for instructions, by_run in computed.items():
        for run, (truth, prediction) in by_run.items():
            defence, seed, attack = run.split()
            first = next(iter(computed.values()))[run][1]
            counts = {
                "correct": sum(one == other for one, other in zip(truth, prediction, strict=True)),
                "same": sum(one == other for one, other in zip(first, prediction, strict=True)),
                "images": len(truth),
            }
            rows.append({"defence": defence, "seed": int(seed), "instructions": instructions, "attack": attack, **counts})
            print(rows[-1], flush=True)
    described = {
        "device": device.name_and_threads()[0],
        "torch": version("torch"),
        "commit": store.commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "spec": registry.training("quick", "pgd-at", 0).json(),
    }
    path = data_folder() / "recorded" / "processors" / f"{name}.json"
    write(path, json.dumps({**described, "rows": rows}, indent=1).encode())
    print(path)


if __name__ == "__main__":
    typer.run(main)
