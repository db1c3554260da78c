"""The report of an audit: a notebook, the same as one HTML page, and its numbers as JSON."""

import json
import sys
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import classwise
from classwise import runs
from classwise.book import build, notebooks
from classwise.charts import audit_report, class_explorer
from classwise.core.audit import Audit
from classwise.core.errors import check_known
from classwise.core.files import write
from classwise.core.markup import decimal
from classwise.runs import audits, store
from classwise.runs.audits import REPORT
from classwise.stats import bootstrap, masking, metrics, sanity

# By the name of a number; those that are not named are counts.
_UNITS = dict.fromkeys(("overall", "worst", "worst_k", "gini", "accuracy", "first", "second"), "percent")
_UNITS |= {"mcd": "points", "difference": "points", "cv": "points squared", "cv_unbiased": "points squared"}
_UNITS |= {"attracted": "percent of all mistakes", "worst_share": "percent of bootstrap draws", "limit": "percent"}
_UNITS |= {"critical_radius": "pixels from 0 to 1"}


def audit_in_full(network: Any, images: Any, *, against: Any = None, **options: Any) -> tuple[Path, dict[str, Any]]:
    """Return the page of the report of an audit and its numbers, as `classwise.audit` does."""
    known = [name for name in signature(runs.audit).parameters if name not in ("weights", "dataset")]
    check_known("option of an audit", options, [*known, "against"])
    options["classes"] = list(options.get("classes") or ())
    audit = runs.audit(network, dataset=images, **options)
    other = None if against is None else audits.audit_against(audit, against, dataset=images, **options)
    for one in filter(None, (audit, other)):
        audits.run_audit(one)
    if other:
        _write(store.run_folder(other) / REPORT, numbers(other))
    # The notebook of the report, in another process, reads the finished audits.
    folders = {"weights": str(store.run_folder(audit)), "against": other and str(store.run_folder(other))}
    return write_report(audit, other, folders | {"classes": options["classes"]})


def _write(path: Path, data: Mapping[str, Any]) -> None:
    write(path, f"{json.dumps(data, indent=1)}\n".encode())


def write_report(
    audit: Audit, against: Audit | None, parameters: Mapping[str, Any], limit: float | None = None
) -> tuple[Path, dict[str, Any]]:
    """Write the report of an audit as a notebook, a page and JSON in its folder; return the page and the numbers.

    against: another audit on the same images; the report is then against-ID, next to report.json. parameters: of the notebook.
    limit: the share of the images of the worst class, 0 to 1, below which the audit fails.
    """
    folder = store.run_folder(audit)
    page = folder / f"{'report' if against is None else f'against-{against.id}'}.html"
    target = page.with_suffix(".ipynb")
    report = numbers(audit)
    if limit is not None:
        least = round(100 * limit, 9)
        # Under a warning the accuracy may be misleading.
        passed = round(report["worst_class"]["accuracy"], 9) >= least and set(report["warnings"]) <= {sanity.FLAT}
        report["fail_below"] = {"limit": least, "passed": passed}
    _write(folder / REPORT, report)
    # The report is made in another folder. It has no formulas, but a class may be named like one: MathJax is left out.
    notebooks.execute(notebooks.find("audit"), target, parameters, folder / "failed.ipynb", bar=sys.stderr.isatty())
    name = audit.network if against is None else f"{audit.network} against {against.network}"
    notebooks.standalone(target, page, build.scripts()[:1], build.style(), f"{name}: an audit", code=False)
    content = report if against is None else report | {"against": comparison(audit, against)}
    _write(page.with_suffix(".json"), content)
    return page, content


def conclusion(content: Mapping[str, Any]) -> list[str]:
    """Return what `numbers`, with a comparison and a limit, come to, each in a sentence."""
    worst, limit, against, lines = content["worst_class"], content.get("fail_below"), content.get("against"), []
    if against:
        low, value, high = (decimal(against["all_images"]["difference"][end]) for end in ("low", "value", "high"))
        names = f"{content['audit']['network']} less {against['network']}"
        lines.append(f"{names}, image by image: {value} points of all images (95 %: {low} to {high})")
    lines += [f"warning: {cause}: {why}" for cause, why in content["warnings"].items()]
    less = ""
    if limit and not limit["passed"]:
        low_enough = worst["accuracy"] < limit["limit"]
        less = f", less than {limit['limit']:g} %" if low_enough else "; the limit is not met because of a warning"
    low, high = (content["classes"][worst["name"]]["accuracy"][masking.WORST][end] for end in ("low", "high"))
    rate = f"{worst['accuracy']:.4g} % of its images (95 %: {low:.0f} to {high:.0f})"  # 19.98 is less than 20
    equal = len(worst["equal"])
    who = f"{equal} classes are equally weak: each" if equal > 1 else f"the worst class, {worst['name']},"
    return [*lines, f"{who} withstands the attacks on {rate}{less}"]


def numbers(audit: Audit) -> dict[str, Any]:
    """Return what the report of an audit says, for programs: plain lists and numbers, None where one is unknown or infinite.

    "audit" holds the sha256 of the weights and the digest of the images, the names of "evaluations" those of the attacks with all
    their settings. Accuracies are in percent, those of "robust" and of "worst case" under all attacks together; radii are of
    pixels from 0 to 1.
    """
    outcomes, curve = (runs.outcomes([audit], some) for some in (audit.evaluations, audit.curve))
    checks, results = runs.audit_checks(audit), runs.audit_outcomes(audit)
    count = audit_report.network_counts(results)
    worst, draws = count.sel(attack=masking.WORST, drop=True), audit_report.bootstrap_draws(count)
    steps = class_explorer.radius_counts(outcomes, masking.curve_with_worst_case(curve, results, audit.eps))
    held_out = dict(zip(("correct", "images"), audit_report.held_out_worst(results), strict=True))
    rates = metrics.accuracy(worst)
    return {
        "audit": json.loads(audit.json()) | {"reach": audit.reach},
        "id": audit.id,
        "classwise": classwise.__version__,
        "commit": store.commit(),
        "created": outcomes.attrs.get("created", ""),
        "evaluations": [one.name for one in dict.fromkeys([*audit.evaluations, *audit.curve])],
        "units": _UNITS,
        "robust": {
            name: _plain(bootstrap.bootstrap(worst, metrics.METRICS[name], draws=draws)) for name in audit_report.MEASURES
        },
        "worst_class": {
            "name": str(rates.idxmin("label").item()),
            "equal": [str(one) for one in rates.label.values[(rates == rates.min()).values]],
            "accuracy": float(rates.min()),
            "held_out": held_out,
        },
        "warnings": masking.warnings(outcomes, curve, audit.eps, checks),
        "classes": _by_label(audit_report.class_numbers(audit, count, steps)),
    }


def comparison(audit: Audit, against: Audit) -> dict[str, Any]:
    """Return `audit_report.match_networks` of two audits on the same images as plain numbers."""
    pairs = _by_label(audit_report.match_networks(runs.audit_outcomes(audit), runs.audit_outcomes(against)))
    everything = pairs.pop(audit_report.ALL)
    return {"network": against.network, "id": against.id, "sha256": against.sha256, "all_images": everything, "classes": pairs}


def _by_label(data: xr.Dataset) -> dict[str, Any]:
    return {str(label): _plain(data.sel(label=label, drop=True)) for label in data.label.values}


def _plain(value: xr.DataArray | xr.Dataset) -> Any:
    """Return arrays as numbers in dicts by the members of their dimensions, with four digits after the point."""
    if isinstance(value, xr.Dataset):
        return {str(name): _plain(one) for name, one in value.data_vars.items()}
    if not value.dims:
        number = value.item()
        return number if value.dtype.kind in "biu" else round(number, 4) if np.isfinite(number) else None
    first = value.dims[-1]
    return {str(member): _plain(value.sel({first: member}, drop=True)) for member in value[first].values}
