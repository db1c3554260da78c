"""The report of an audit: a notebook, the same as one HTML page, and its numbers as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import classwise
from classwise import runs
from classwise.book import build, notebooks
from classwise.charts import audit_report, class_explorer
from classwise.core.audit import Audit
from classwise.core.files import write
from classwise.runs import store
from classwise.runs.audits import REPORT
from classwise.stats import bootstrap, masking, metrics


def write_report(audit: Audit, against: Audit | None, parameters: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """Write report.ipynb, report.html and report.json in the folder of an audit; return the HTML page and the numbers.

    against: another audit on the same images. parameters: of the notebook.
    """
    folder = store.run_folder(audit)
    target, page = folder / "report.ipynb", folder / "report.html"
    # The report is made in another folder.
    notebooks.execute(notebooks.find("audit"), target, parameters, folder / "failed.ipynb")
    notebooks.standalone(target, page, build.scripts(), build.style(), f"{audit.network}: an audit", code=False)
    content = numbers(audit, against)
    write(folder / REPORT, f"{json.dumps(content, indent=1)}\n".encode())
    return page, content


def numbers(audit: Audit, against: Audit | None = None) -> dict[str, Any]:
    """Return what the report of an audit says, for programs: plain lists and numbers, None where one is unknown or infinite.

    "audit" holds the sha256 of the weights and the digest of the images, the names of "evaluations" those of the attacks with all
    their settings. Accuracies are in percent, those of "robust" and of "worst case" under all attacks together.
    """
    outcomes, curve = (runs.outcomes([audit], some) for some in (audit.evaluations, audit.curve))
    checks, results = runs.audit_checks(audit), runs.audited(audit)
    count = audit_report.network_counts(results)
    worst, draws = count.sel(attack=masking.WORST, drop=True), audit_report.bootstrap_draws(count)
    steps = class_explorer.radius_counts(outcomes, masking.curve_with_worst_case(curve, results, audit.eps))
    held_out = dict(zip(("correct", "images"), audit_report.held_out_worst(results), strict=True))
    of_classes = audit_report.class_numbers(audit, count, steps)
    content: dict[str, Any] = {
        "audit": json.loads(audit.json()) | {"reach": audit.reach},
        "id": audit.id,
        "classwise": classwise.__version__,
        "commit": store.commit(),
        "created": outcomes.attrs.get("created", ""),
        "evaluations": [one.name for one in dict.fromkeys([*audit.evaluations, *audit.curve])],
        "robust": {
            name: _plain(bootstrap.bootstrap(worst, metrics.METRICS[name], draws=draws)) for name in audit_report.MEASURES
        },
        "worst class": str(metrics.accuracy(worst).idxmin("label").item()),
        "worst class of one half on the other": held_out,
        "warnings": masking.warnings(outcomes, curve, audit.eps, checks),
        "classes": _by_label(of_classes),
    }
    if against is not None:
        pairs = audit_report.matched(results, runs.audited(against))
        content["against"] = {"network": against.network, "id": against.id, "sha256": against.sha256, "classes": _by_label(pairs)}
    return content


def _by_label(data: xr.Dataset) -> dict[str, Any]:
    return {str(label): _plain(data.sel(label=label, drop=True)) for label in data.label.values}


def _plain(value: xr.DataArray | xr.Dataset) -> Any:
    """Return arrays as numbers in dicts by the members of their dimensions, with four digits after the point."""
    if isinstance(value, xr.Dataset):
        return {str(name): _plain(one) for name, one in value.data_vars.items()}
    if not value.dims:
        number = value.item()
        return number if value.dtype.kind in "iu" else round(number, 4) if np.isfinite(number) else None
    first = value.dims[-1]
    return {str(member): _plain(value.sel({first: member}, drop=True)) for member in value[first].values}
