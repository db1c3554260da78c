"""The methods of Tables 1 to 4: which training and which checkpoint each row is.

Neither average influences the training, so that one training gives the rows "AT", "AT + EMA" and "AT + FAWA", and the calibrated
training "AT + CCM", "AT + CCM + EMA" and "AT + CFA".
"""

from dataclasses import replace

import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.spec import Evaluation
from classwise.papers.sections import Part

AVERAGES = ("ema", "fawa")
# The base methods, each with the name of its training with CCM (of TRADES with CCM and CCR), as Tables 2 and 3 name them.
_BASES = {"AT": ("pgd-at", "at-ccm", "CCM"), "TRADES": ("trades", "trades-ccm-ccr", "CCM + CCR")}
_BASES |= {"FAT": ("fat-constant", "fat-ccm", "CCM")}


# By the name of a row of the tables: the defence and the checkpoint. Further rows, such as AT + CCM + EMA, the paper lacks.
METHODS: dict[str, tuple[str, str]] = {}
for _base, (_plain, _calibrated, _terms) in _BASES.items():
    METHODS |= {_base: (_plain, "last"), f"{_base} + EMA": (_plain, "ema"), f"{_base} + FAWA": (_plain, "fawa")}
    METHODS |= {f"{_base} + {_terms}": (_calibrated, "last"), f"{_base} + {_terms} + EMA": (_calibrated, "ema")}
    METHODS[f"{_base} + CFA"] = (_calibrated, "fawa")
METHODS |= {"TRADES + CCM": ("trades-ccm", "last"), "TRADES + CCR": ("trades-ccr", "last")}
METHODS |= {"FRL": ("frl-rmrw", "last"), "FRL + EMA": ("frl-rmrw", "ema")}
# Table 1.
COMPARED = (*(f"{base}{more}" for base in _BASES for more in ("", " + EMA", " + CFA")), "FRL", "FRL + EMA")
# The checkpoint that is the best epoch of each, where runs select one.
BEST = {"last": "best", "ema": "best-ema", "fawa": "best-fawa"}

EVALUATIONS = tuple(Evaluation(attack=name) for name in ("clean", "pgd-20", "strong"))


def _of(*checkpoints: str) -> tuple[Evaluation, ...]:
    return tuple(Evaluation(attack=one.attack, checkpoint=name) for name in checkpoints for one in EVALUATIONS)


_AVERAGED = tuple(name for pair in _BASES.values() for name in pair[:2])
# The trainings of Tables 1 to 3 without those of TRADES + CCM and TRADES + CCR, which have no averages.
TABLES_1_TO_3 = Part(
    title="The methods of Tables 1 to 3",
    defences=(*_AVERAGED, "frl-rmrw"),
    evaluations=EVALUATIONS,
    run={"averages": AVERAGES},
    max_seeds=1,
    extra_evaluations=dict.fromkeys(_AVERAGED, _of(*AVERAGES)) | {"frl-rmrw": _of("ema")},
)
COMPONENTS = Part(title="CCM and CCR alone", defences=("trades-ccm", "trades-ccr"), evaluations=EVALUATIONS, max_seeds=1)
# The same at the best epoch; at scales without selection it has no runs.
AT_BEST = replace(
    TABLES_1_TO_3,
    title="The best epochs",
    evaluations=_of("best"),
    variants=lambda scale, plain: () if plain.select is None else ({},),
    extra_evaluations=dict.fromkeys(_AVERAGED, _of("best-ema", "best-fawa")) | {"frl-rmrw": _of("best-ema")},
)


def is_accepted(outcomes: xr.Dataset, defence: str, checkpoint: str) -> bool:
    """Return whether a checkpoint differs from the last (best) epoch, as it does unless FAWA accepts none, or that one alone."""
    base = checkpoint.replace("best-fawa", "best").replace("fawa", "last")
    if base == checkpoint or "checkpoint" not in outcomes.dims or base not in outcomes.checkpoint.values:
        return True
    both = outcomes.prediction.sel(defence=defence)
    return bool((both.sel(checkpoint=checkpoint) != both.sel(checkpoint=base)).any())


def name_methods(outcomes: xr.Dataset, *, best: bool = False) -> xr.Dataset:
    """Return outcomes of the trainings above along defence, whose names are then those of METHODS.

    outcomes: with the dimension checkpoint if any average was evaluated. best: take the best epoch of each method, not the last.
    Methods without results are left out, and those without an average (`is_accepted`), which the attribute refused names;
    NotRecorded if none is left.
    """
    if "checkpoint" not in outcomes.dims:
        outcomes = outcomes.expand_dims(checkpoint=["best" if best else "last"])
    rows: dict[str, xr.Dataset] = {}
    refused: dict[str, xr.Dataset] = {}
    for name, (defence, checkpoint) in METHODS.items():
        kept = BEST[checkpoint] if best else checkpoint
        if defence in outcomes.defence.values and kept in outcomes.checkpoint.values:
            row = outcomes.sel(defence=defence, checkpoint=kept, drop=True)
            if bool((row.truth >= 0).any()):
                (rows if is_accepted(outcomes, defence, kept) else refused)[name] = row
    if not rows:
        raise NotRecorded("no method of Tables 1 to 3 is recorded")
    joined = xr.concat(list(rows.values()), pd.Index(list(rows), name="defence"), coords="minimal", compat="override")
    return joined.assign_attrs(outcomes.attrs, refused=dict.fromkeys(refused, "FAWA gave no average"))


# What a verdict needs of outcomes, and its value where there is no image.
OF_IMAGES = {"truth": -1, "prediction": -1, "misclassified": False}


def name_rows(*parts: xr.Dataset | None) -> xr.Dataset:
    """Return the rows of Tables 2 and 3 along defence, from the outcomes of the trainings of AT, TRADES, FAT, and of COMPONENTS.

    None of those that are not recorded.
    """
    rows = [name_methods(part[list(OF_IMAGES)].assign_coords(predicted=part.predicted)) for part in parts if part is not None]
    joined = xr.concat(rows, "defence", join="outer", fill_value=OF_IMAGES)
    refused = {name: why for row in rows for name, why in row.attrs["refused"].items()}
    return joined.assign_attrs(rows[0].attrs, refused=refused)
