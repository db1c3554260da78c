"""A subject of a third kind, next to Spec and Audit: one class, and the registration of its images and its network."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

from classwise import images, runs
from classwise.charts import gallery
from classwise.core.errors import UserError
from classwise.core.identity import Identified
from classwise.core.spec import Evaluation, Subject
from classwise.runs import store
from classwise.runs.compute.networks import network_of
from classwise.runs.compute.validate import images_of

PGD = Evaluation(attack="pgd-10", options={"steps": 2})


@dataclass(frozen=True, kw_only=True, eq=True, unsafe_hash=False)
class Published(Subject):
    """The checkpoint of a paper."""

    checkpoint: str
    dataset: str
    eps: str
    norm: str = "linf"
    seed: int = 0

    dimensions: ClassVar[tuple[str, ...]] = ("checkpoint",)

    @property
    def folder(self) -> str:
        return f"published/{self.name}"

    __hash__ = Identified.__hash__


@images_of.register
def _(subject: Published, split: str) -> images.Images:
    return images.load(subject.dataset, split, 0).only(("0", "1", "2"))


@network_of.register
def _(subject: Published, evaluation: Evaluation | None = None) -> nn.Module:
    torch.manual_seed(subject.seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).eval()


def test_a_third_kind_of_subject_is_evaluated_and_loaded(data):
    first, second = (Published(checkpoint=name, dataset="digits", eps="0.1", seed=seed) for seed, name in enumerate("ab"))
    outcomes = runs.outcomes([first, second], [Evaluation(), PGD])
    assert outcomes.sizes == {"checkpoint": 2, "attack": 2, "image": len(images_of(first, "test")), "predicted": 3}
    assert outcomes.checkpoint.values.tolist() == ["a", "b"]
    assert (outcomes.attrs["dataset"], outcomes.attrs["scale"]) == ("digits", "own settings")
    assert (outcomes.misclassified.sum("image").diff("attack") >= 0).all()
    stored = data / "published" / first.name / store.Key(first, store.OUTCOMES, PGD).name
    written = stored.stat().st_mtime_ns
    again = runs.outcomes([first], [PGD])
    assert stored.stat().st_mtime_ns == written
    assert (again.logits.squeeze() == outcomes.logits.sel(checkpoint="a", attack="pgd-10")).all()
    assert store.Key(first, store.OUTCOMES, PGD).read().attrs["spec"] == first.json()


def test_examples_and_features_of_a_third_kind_of_subject(data):
    subject = Published(checkpoint="a", dataset="digits", eps="0.1")
    assert runs.examples(subject, PGD, per_class=1).sizes["image"] == 3
    assert runs.features(subject).sizes == {"block": 9, "label": 3, "feature": 64}
    assert {path.name for path in store.run_folder(subject).iterdir()} >= {"examples", "features-2"}


def test_images_of_a_third_kind_of_subject_are_attacked_live(data):
    subjects = [Published(checkpoint=name, dataset="digits", eps="0.1") for name in "ab"]
    show = gallery.attack_live(runs.attack_function, subjects, PGD, count=1).draw
    assert show("1").to_dict() != show("1", "b").to_dict()
    assert show("1") is show("1", "a")


def test_a_transfer_attack_needs_a_subject_that_was_trained_here(data):
    subject = Published(checkpoint="a", dataset="digits", eps="0.1")
    with pytest.raises(UserError, match="was not trained here"):
        runs.outcomes([subject], [Evaluation(attack="pgd-10", substitute="standard")])


def test_a_subject_without_images_or_a_folder_is_named():
    class Unknown(Subject):
        folder = "unknown"

    with pytest.raises(TypeError, match="no implementation for Unknown"):
        images_of(Unknown(), "test")
    with pytest.raises(TypeError, match="abstract method folder"):
        type("WithoutFolder", (Subject,), {})()
