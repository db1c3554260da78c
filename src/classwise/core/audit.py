"""An Audit defines the evaluation of a user's trained network, as a Spec defines a training."""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le

from classwise.core.errors import UserError
from classwise.core.identity import Identified, exact_radius, radius_text, scaled_radius
from classwise.core.options import Count, Seed, check_fields
from classwise.core.spec import Evaluation, Subject

# The radii of the curve, as multiples of the audit's radius.
GRID = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(3, 2), Fraction(2))
# The attack of the curve and the gallery: cheap enough to run at every radius.
_CHEAP = {"attack": "apgd-ce", "options": {"steps": 20}}
# One step exposes networks that were trained against one step only, an attack without gradients exposes gradient masking: with
# 100 queries it breaks almost none of the images that withstand `strong`, with 1,000 about 1 % of them.
_CHECKS: tuple[dict[str, Any], ...] = {"attack": "fgsm"}, {"attack": "apgd-square", "options": {"queries": 1000}}
# Attacks that make as many queries or more, and how many.
_QUERYING = {"apgd-square": 1000, "square": 5000, "autoattack": 5000}
# A smaller radius is lost in the rounding of a pixel near 1.
LEAST_RADIUS = Fraction(1, 1_000_000)
# Paths on this machine, and what follows from the other fields: neither hashed nor stored with results.
_LOCAL: dict[str, Any] = {"weights": "", "home": "", "out": "", "reach": None}


def parse_normalise(text: str) -> tuple[list[float], list[float]] | None:
    """Return mean and standard deviation of each channel from "0.49,0.48,0.45/0.25,0.24,0.26"; None for "none" or "dataset"."""
    if text in ("none", "dataset"):
        return None
    try:
        mean, std = ([float(part) for part in half.split(",")] for half in text.split("/"))
    except ValueError:
        form = "none, dataset, or mean/std of each channel like 0.49,0.48,0.45/0.25,0.24,0.26"
        raise UserError(f"normalise={text!r} is not understood; write {form}") from None
    if len(mean) != len(std) or not all(value > 0 and isfinite(value) for value in std):
        raise UserError(f"normalise={text!r} needs as many standard deviations as means, all above 0")
    if not all(abs(value) <= 1 for value in mean):
        raise UserError(f"normalise={text!r} is not of pixels in [0, 1]; divide means and deviations of 0 to 255 by 255")
    return mean, std


@dataclass(frozen=True, kw_only=True, eq=True, unsafe_hash=False)
class Audit(Subject):
    """The weights of a network, the images that it is evaluated on, and the attack.

    Parameters
    ----------
    network, sha256, weights
        its name in results; the sha256 of the file of its weights, and that file.
    dataset, seed, per_class, images
        whose test images; the seed of the choice of images, their number of each class (None for all), and their digest.
    eps, norm, attack, batch
        the attack and its radius; the number of images evaluated at a time.
    model, code, width
        a name of models.MODELS, or "module:function", a function of the user's that returns a network; the sha256 of its module
        and of what that imports from `home`; None for the width of the weights.
    normalise
        the input that the weights expect: "none" for pixels in [0, 1], "dataset" for pixels standardised by the mean and
        standard deviation of the dataset, or both as `parse_normalise` reads them; weights that hold a mean and std override it.
    home, out
        the folder that "module" is imported from and the folder of the results; "" if not needed.
    reach
        the L2 radius whose ball covers every image; None if unknown.
    """

    network: str
    sha256: str
    dataset: str
    eps: str
    images: str = ""
    model: str = "small-cnn"
    code: str = ""
    width: Annotated[int | None, Ge(1), Le(2**16)] = None
    normalise: str = "none"
    attack: str = "strong"
    norm: str = "linf"
    per_class: Annotated[int | None, Ge(1)] = None
    seed: Seed = 0
    batch: Annotated[Count, Le(2**24)] = 50
    weights: str = ""
    home: str = ""
    out: str = ""
    reach: float | None = None

    dimensions: ClassVar[tuple[str, ...]] = ("network",)

    @property
    def short(self) -> str:
        """The name of the network without the id of its run: "pgd-at"."""
        return re.sub(r"-[0-9a-f]{10}$", "", self.network)

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", radius_text(self.eps, self.norm))
        check_fields(self, "an audit")
        parse_normalise(self.normalise)
        if exact_radius(self.eps) < LEAST_RADIUS:
            least = f"is below {float(LEAST_RADIUS):g}, about what float32 pixels resolve"
            problem = least if exact_radius(self.eps) > 0 else "means no attack"
            raise UserError(f"eps={self.eps} {problem}; write a radius like 8/255")
        module, colon, function = self.model.partition(":")
        form = module.removesuffix(".py").replace("/", ".")
        fits = function.isidentifier() and all(part.isidentifier() for part in form.split("."))
        if colon and not (fits and form == module):
            meant = f"{form}:{function}" if fits else "one like my_module:build"
            raise UserError(f"model={self.model!r} is not of the form module:function; write {meant}")
        if self.attack == "clean":
            raise UserError("attack='clean' is no attack, and clean images are always evaluated; write strong or pgd-20")

    def canonical(self) -> dict[str, Any]:
        """Return the fields that determine the results, as `Identified` does."""
        return {name: value for name, value in super().canonical().items() if name not in _LOCAL}

    def json(self) -> str:
        """Return the JSON text that results carry, without the local fields."""
        return Identified.json(replace(self, **_LOCAL))

    @property
    def folder(self) -> str:
        return str(Path(self.out).absolute() / self.name) if self.out else f"audits/{self.name}"

    @property
    def recorded_folder(self) -> str:
        return f"recorded/audits/{self.name}"

    @property
    def weights_digest(self) -> str:
        return self.sha256

    @property
    def title(self) -> str:
        """The dataset as sentences name it: a folder by its last part, without the options that every audit adds."""
        if self.dataset.startswith("given-"):
            return "your program"
        name, _, options = self.dataset.partition("?")
        kind, colon, path = name.partition(":")
        kept = "&".join(option for option in options.split("&") if option and option not in ("whole=1", "skip-bad=1"))
        return f"{kind}{colon}{PurePath(path).name if colon else ''}{f'?{kept}' if kept else ''}"

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Clean images, the attack, and as sanity checks one of a single step and one without gradients, on the same images."""
        checks = _CHECKS[:1] if self.attack in _QUERYING else _CHECKS
        attacks = ({"attack": "clean"}, {"attack": self.attack}, *checks)
        return tuple(dict.fromkeys(self.evaluation_of(**attack) for attack in attacks))

    @property
    def queries(self) -> int:
        """The most queries of the black-box attack for an image."""
        return _QUERYING.get(self.attack, int(_CHECKS[1]["options"]["queries"]))

    @property
    def curve(self) -> tuple[Evaluation, ...]:
        """A cheap attack at radii from a quarter to twice the audit's, without those whose ball covers every image."""
        radii, limit = [scaled_radius(self.eps, factor) for factor in GRID], 1.0 if self.norm == "linf" else self.reach
        return tuple(self.evaluation_of(**_CHEAP, eps=eps) for eps in radii if limit is None or exact_radius(eps) < limit)

    @property
    def cheap(self) -> Evaluation:
        """The attack of the curve at the audit's radius, with which images are shown."""
        return self.evaluation_of(**_CHEAP)

    def evaluation_of(self, **changed: Any) -> Evaluation:
        """Return an evaluation on the audit's images at its radius, with some fields of Evaluation changed."""
        fields = ("eps", "norm", "per_class", "seed", "batch")
        return Evaluation(**{name: getattr(self, name) for name in fields} | changed)

    __hash__ = Identified.__hash__
