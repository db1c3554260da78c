"""The verdicts of sections on their claims, from the runs that they ask for."""

from collections.abc import Sequence

from classwise import claims, study
from classwise.claims import Verdict
from classwise.errors import unknown
from classwise.run import store
from classwise.run.gathering import gathered
from classwise.spec import Evaluation, Spec

# A bigger scale counts only where all that a section asks for is recorded; this one is computed.
_HERE = "quick"


def judged(scale: str = _HERE, others: Sequence[str] | None = None, sections: Sequence[str] | None = None) -> list[Verdict]:
    """Return a verdict on every claim of sections (None: of all that have any), at a scale.

    Where a section has no chapter yet, or its runs at a bigger scale are not all there, its claims are "not asked"; runs of scale
    "quick" are computed where they are missing. `others`: further scales (None: all), of which those sections are taken that
    are all there.
    """
    for name in (scale, *(others or ())):
        if name not in study.SCALES:
            raise unknown("scale", name, study.SCALES)
    known = list(sections or dict.fromkeys(claim.section for claim in claims.CLAIMS))
    found = [one for section in known for one in _judged(section, scale)]
    for name in study.SCALES if others is None else others:
        if name != scale:
            found += [one for section in known if not _missing(section, name) for one in _judged(section, name)]
    return found


def _judged(section: str, scale: str) -> list[Verdict]:
    reason = _missing(section, scale)
    if not reason:
        asked = study.request(section, scale)
        # What a section asks of further datasets is judged of each of them.
        kinds = {"": asked, **(asked.parts if study.SECTIONS[section].widely else {})}
        return [
            one for part in kinds.values() for one in claims.judge(section, gathered(section, part), scale=scale, strict=False)
        ]
    dataset = str(study.SCALES[scale].run["dataset"])
    return [Verdict(claim, "not asked", scale, dataset, reason=reason) for claim in claims.of(section)]


def _missing(section: str, scale: str) -> str:
    """Return why a section cannot be judged at a scale; "" where it can."""
    if section not in study.SECTIONS:
        return "the section has no chapter yet"
    if scale == _HERE:
        return ""
    asked = study.request(section, scale).asked
    there = sum(_there(spec, evaluations) for spec, evaluations in asked)
    return "" if there == len(asked) else f"{there} of {len(asked)} runs are there"


def _there(spec: Spec, evaluations: Sequence[Evaluation]) -> bool:
    asked = [one.of(spec) for one in evaluations]
    return any(store.complete(folder, asked) for folder in store.places(spec))
