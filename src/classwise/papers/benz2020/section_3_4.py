"""Benz et al. 2020, section 3.4: the accuracy of each class on corrupted images, of standard and of adversarial training.

The claims need the corruptions along `attack`, next to clean images and an attack ("corrupted"), and for the last one the halves
of the images of each class along `half` ("halves").
"""

from classwise.core.spec import Evaluation
from classwise.papers.sections import CLEAN_AND_PGD, Section

NAME = "benz2020/3-4-corruptions"

# By their kind, in the order of Hendrycks and Dietterich (2019).
KINDS: dict[str, tuple[str, ...]] = {
    "noise": ("gaussian-noise", "shot-noise", "impulse-noise"),
    "blur": ("defocus-blur", "glass-blur", "motion-blur", "zoom-blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic-transform", "pixelate", "jpeg-compression"),
}
CORRUPTIONS = tuple(name for names in KINDS.values() for name in names)
# Of all corruptions, and others of one of each kind that the paper names.
SEVERITY, SEVERITIES, SWEPT = 3, (1, 5), ("gaussian-noise", "fog", "contrast")
# As many of each class as were evaluated of photographs; digits have fewer.
_IMAGES = 200


def _corrupted(name: str, severity: int) -> Evaluation:
    return Evaluation(transform=f"{name}-{severity}", per_class=_IMAGES)


DEFENCES = ("standard", "pgd-at")
SECTION = Section(
    title="Corruptions",
    defences=DEFENCES,
    evaluations=CLEAN_AND_PGD,
    parts={
        "corrupted": Section(
            title="corrupted images",
            defences=DEFENCES,
            evaluations=(
                *(_corrupted(name, SEVERITY) for name in CORRUPTIONS),
                *(_corrupted(name, severity) for name in SWEPT for severity in SEVERITIES),
            ),
        )
    },
)
CLAIMS = ()
