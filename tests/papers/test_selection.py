"""Classes selected on validation images."""

import numpy as np
import pytest
from claim_answers import history

from classwise import images
from classwise.papers import registry, scales, selection

CLASSES = ["a", "b", "c", "d"]


def test_the_pair_is_the_least_robust_class_on_validation_images_and_the_one_it_is_confused_with_most():
    valid = np.array([[9, 1, 0, 0], [0, 5, 0, 5], [2, 3, 4, 1], [0, 2, 1, 7]])
    found = history(seed=[0, 2], epoch=[1, 9], label=CLASSES)
    count = found["count"]
    count.loc[{"seed": 2, "epoch": 9, "split": "valid", "attack": "pgd-10"}] = valid
    # What is tested, measured earlier, or shown unattacked, says otherwise, and does not count.
    for other in ({"split": "test"}, {"epoch": 1}, {"attack": "clean"}):
        count.loc[{"seed": 2, "epoch": 9, "split": "valid", "attack": "pgd-10"} | other] = valid[::-1, ::-1]
    # c is right least often, and is misclassified as b most.
    assert selection.pair_of(found, "digits") == ("c", "b")
    count.loc[{"seed": 2, "epoch": 9, "split": "valid", "attack": "pgd-10", "label": "d", "predicted": "c"}] = 5
    assert selection.pair_of(found, "digits") == ("c", "d")
    count.loc[{"seed": 0, "epoch": 9, "split": "valid", "attack": "pgd-10"}] = 10 * valid[::-1, ::-1]
    assert selection.pair_of(found, "digits") == ("c", "d")  # seed 2 selects, seed 0 judges
    assert selection.pair_of(found, "cifar10") != ("c", "d")
    assert selection.classes_by_robustness(found, "digits")[0] == "c"


def specs_of(request):
    """Return the runs of a section and of its parts but those that select classes."""
    parts = [part for name, part in request.parts.items() if name != "choosing"]
    return {*request.specs, *(spec for part in parts for spec in specs_of(part))}


CHOOSING = [name for name in registry.SECTIONS if "choosing" in registry.request(name).parts]


@pytest.mark.parametrize("section", [*CHOOSING, "tian2021/6-2-background"])
def test_no_image_that_selects_classes_is_tested(section):
    request, seeds = registry.request(section), set(scales.selection_seeds("digits"))
    if section in CHOOSING:
        assert seeds <= {spec.seed for spec in request.parts["choosing"].specs}
    tested = [set(images.load("digits", "test", seed).index.tolist()) for seed in {spec.seed for spec in specs_of(request)}]
    valid = [set(images.load("digits", "valid", seed).index.tolist()) for seed in seeds]
    assert all(not one & other for one in tested for other in valid)
