"""Classes selected on images that do not judge them: validation images, of PGD-AT (of TRADES in Tian 2021, section 6.1)."""

import xarray as xr

from classwise.core.datasets import base_dataset
from classwise.core.errors import check_known
from classwise.papers.scales import selection_seeds
from classwise.stats import metrics

# The most vulnerable class and the one it is confused with most. Section 6.1 of Tian 2021 selects 3 and 5 for CIFAR-10; for
# digits `pair_of` selected them on validation images of `selection_seeds` (tests select again). There 8 and 9
# are not distinguished: after PGD-AT the rule names 8 and 1 with AVX-512 and AVX2, 9 and 3 with SSE4.1. MNIST's are a guess.
VULNERABLE_PAIRS: dict[str, tuple[str, str]] = {"digits": ("8", "1"), "mnist": ("9", "4"), "cifar10": ("cat", "dog")}

# The class that is the most robust one by the same rule (entropy2022: of CIFAR-10 automobiles), with which a training for the
# vulnerable class is compared.
SAFEST: dict[str, str] = {"digits": "0", "cifar10": "automobile"}


def vulnerable_pair(dataset: str) -> tuple[str, str]:
    """Return a vulnerable class and the one that it is confused with most (`VULNERABLE_PAIRS`)."""
    check_known("dataset whose vulnerable class is known", [base_dataset(dataset)], VULNERABLE_PAIRS)
    return VULNERABLE_PAIRS[base_dataset(dataset)]


def mark_pair(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes with the class coordinates `vulnerable` and `partner`, each true for one class of the dataset's pair."""
    names, pair = outcomes.predicted.values, vulnerable_pair(outcomes.attrs["dataset"])
    marks = {mark: ("predicted", names == name) for mark, name in zip(("vulnerable", "partner"), pair, strict=True)}
    return outcomes.assign_coords(marks)


def marked_class(sums: xr.Dataset | xr.DataArray, mark: str) -> int:
    """Return the number of the class that a coordinate of `mark_pair` marks."""
    return int(sums.coords[mark].values.argmax())


def safest(dataset: str) -> str:
    """Return the most robust class (`SAFEST`)."""
    check_known("dataset whose most robust class is known", [base_dataset(dataset)], SAFEST)
    return SAFEST[base_dataset(dataset)]


def validation_counts(history: xr.Dataset, dataset: str) -> xr.DataArray:
    """Return counts on the validation images after the last epoch, under the attack that measures them.

    The images of `scales.selection_seeds` are pooled, of all seeds where none of these is present. history: of `runs.history`, of
    one defence.
    """
    count = history["count"].isel(epoch=-1).sel(split="valid")
    seeds = [seed for seed in count.seed.values if seed in selection_seeds(dataset)] or list(count.seed.values)
    probe = next(name for name in count.attack.values if name != "clean")
    over = [dim for dim in count.dims if dim not in ("label", "predicted", "attack")]
    return count.sel(attack=probe, seed=seeds).sum(over)


def classes_by_robustness(history: xr.Dataset, dataset: str) -> tuple[str, ...]:
    """Return the classes from the least to the most robust one on the validation images (`runs.history`, of one defence)."""
    rates = metrics.accuracy(validation_counts(history, dataset)).to_series().sort_values(kind="stable")
    return tuple(map(str, rates.index))


def pair_of(history: xr.Dataset, dataset: str) -> tuple[str, str]:
    """Return the least robust class on the validation images and the class it is confused with most, in both directions."""
    count = validation_counts(history, dataset)
    victim = metrics.accuracy(count).idxmin("label").item()
    mixed = count.where(count.label != count.predicted, 0)
    both = mixed + mixed.rename(label="predicted", predicted="label")
    return str(victim), str(both.sel(label=victim).idxmax("predicted").item())
