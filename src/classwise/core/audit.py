"""An Audit is somebody's trained network and what is asked of it: to an audit what a Spec is to a training of ours.

Its results are outcomes, examples and features like those of a run, in a folder of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from pathlib import PurePath
from typing import Any

from classwise.core.errors import UserError, unknown
from classwise.core.identity import NORMS, Identified, at_least, check_types, radius
from classwise.core.spec import Evaluation, Spec

# The radii of the curve, as multiples of the audit's own.
GRID = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(3, 2), Fraction(2))
# What the curve and the gallery are drawn with: cheap enough to be asked at every radius.
_CHEAP = {"attack": "apgd-ce", "options": {"steps": 20}}
# And a look without gradients, to see whether they mislead.
_BLIND = {"attack": "square", "options": {"queries": 100}}
# Where things lie on this machine, and what follows from the rest: they decide nothing, and no result carries them.
_HERE: dict[str, Any] = {"weights": "", "home": "", "out": "", "reach": None}


def multiple(eps: str, times: Fraction) -> str:
    """Return a multiple of a radius, written as the radius is: half of "8/255" is "4/255", half of "0.2" is "0.1"."""
    over, _, under = eps.partition("/")
    if not under:
        product = Fraction(Decimal(eps)) * times
        return radius(str(Decimal(product.numerator) / Decimal(product.denominator)), "l2")
    count = Fraction(over) * times
    return f"{count}/{under}" if count.denominator == 1 else str(count / Fraction(under))


def pixels(text: str) -> tuple[list[float], list[float]] | None:
    """Return mean and standard deviation of each channel from "0.49,0.48,0.45/0.25,0.24,0.26"; None for "none" and "dataset"."""
    if text in ("none", "dataset"):
        return None
    try:
        mean, std = ([float(part) for part in half.split(",")] for half in text.split("/"))
    except ValueError:
        form = "none, dataset, or mean/std of each channel like 0.49,0.48,0.45/0.25,0.24,0.26"
        raise UserError(f"normalise={text!r} is not understood; write {form}") from None
    if len(mean) != len(std) or not all(one > 0 and isfinite(one) for one in std):
        raise UserError(f"normalise={text!r} needs as many standard deviations as means, all above 0")
    if not all(abs(one) <= 1 for one in mean):
        raise UserError(f"normalise={text!r} is not of pixels in [0, 1]; divide means and deviations of 0 to 255 by 255")
    return mean, std


@dataclass(frozen=True, kw_only=True, eq=True, unsafe_hash=False)
class Audit(Identified):
    """The weights of a network, the images it is asked about, and the attack.

    network: what it is called here. sha256: of the file of its weights. dataset, seed: whose test images, and how they are cut
    and drawn. images: a digest of those that are asked about. model: a name of models.MODELS, or "module:function", a function
    of the user's that returns a network which takes pixels in [0, 1]; code: sha256 of its file. width: None for that of the
    weights. normalise: what the weights expect, "none" for pixels in [0, 1], "dataset" for those less their mean over their
    standard deviation, or both as `pixels` reads them; weights that carry their own mean and std are taken at their word.
    attack, eps, norm: the question. per_class: how many images of each class, None for all. batch: images at once.
    weights, home, out: the file, the folder that "module" is imported from and the one that results are put into; "" for what a
    caller need not know. reach: the L2 radius that covers every image; None where that is not known.
    """

    network: str
    sha256: str
    dataset: str
    eps: str
    images: str = ""
    model: str = "small-cnn"
    code: str = ""
    width: int | None = None
    normalise: str = "none"
    attack: str = "strong"
    norm: str = "linf"
    per_class: int | None = None
    seed: int = 0
    batch: int = 50
    weights: str = ""
    home: str = ""
    out: str = ""
    reach: float | None = None

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise unknown("norm", self.norm, NORMS)
        object.__setattr__(self, "eps", radius(self.eps, self.norm))
        check_types(self, "an audit")
        at_least(self, "an audit", width=1, per_class=1, seed=0, batch=1)
        pixels(self.normalise)
        if not Fraction(self.eps) > 0:
            raise UserError(f"eps={self.eps} asks for no attack; write a radius like 8/255")
        if self.attack == "clean":
            raise UserError("attack='clean' asks for no attack, and clean images are asked about anyway; write strong or pgd-20")
        if ":" in self.model and self.normalise != "none":
            raise UserError(
                f"normalise={self.normalise!r} is for our models; {self.model} takes pixels in [0, 1] and normalises itself"
            )

    def canonical(self) -> dict[str, Any]:
        """Return the fields that decide what is answered, as `Plain` does."""
        return {name: value for name, value in super().canonical().items() if name not in _HERE}

    def json(self) -> str:
        """Return what a result carries."""
        return Identified.json(replace(self, **_HERE))

    @property
    def name(self) -> str:
        """The name of the audit's folder."""
        return f"{self.network}-{self.id}"

    @property
    def title(self) -> str:
        """What the dataset is called in a sentence: a folder by its own name, without what an audit adds to it."""
        name, _, asked = self.dataset.partition("?")
        kind, colon, path = name.partition(":")
        kept = "&".join(one for one in asked.split("&") if one and one not in ("whole=1", "skip-bad=1"))
        short = f"{kind}:{PurePath(path).name}" if colon else name
        return f"{short}?{kept}" if kept else short

    @property
    def classes(self) -> tuple[str, ...]:
        """No choice of classes: a network is asked about all that it knows."""
        return ()

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Clean images, the attack, and a black-box attack as a check."""
        asked = self.asks(attack="clean"), self.asks(attack=self.attack)
        return asked if self.attack == "square" else (*asked, self.asks(**_BLIND))

    @property
    def curve(self) -> tuple[Evaluation, ...]:
        """A cheap attack at radii from a quarter of the audit's own to twice as much, short of one that covers every image."""
        radii, most = [multiple(self.eps, times) for times in GRID], 1.0 if self.norm == "linf" else self.reach
        return tuple(self.asks(**_CHEAP, eps=one) for one in radii if most is None or Fraction(one) < most)

    @property
    def cheap(self) -> Evaluation:
        """What the curve asks at the audit's own radius: good enough to show images with."""
        return self.asks(**_CHEAP)

    def asks(self, **changed: Any) -> Evaluation:
        """Return a question about the audit's images."""
        fields = {"eps": self.eps, "norm": self.norm, "per_class": self.per_class, "seed": self.seed, "batch": self.batch}
        return Evaluation(**{**fields, **changed})

    __hash__ = Identified.__hash__


# What a question is put to.
Subject = Spec | Audit


def critical(names: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Return the classes that are marked critical; a UserError names one that does not exist."""
    for name in names:
        if name not in classes:
            raise unknown("class", name, classes)
    return list(dict.fromkeys(names))
