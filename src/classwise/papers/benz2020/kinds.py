"""What a sentence of a plan is, as its claim says next to its place in the paper."""

# It reports the result; expects it; leaves it open; takes it from another paper; or it is a control of this project.
KINDS = ("found", "expected", "asked", "cited", "control")


def where(place: str, kind: str, source: str = "") -> str:
    """Return the place of a sentence and its kind: where("3.4", "cited", "[13]") is "3.4, cited [13]".

    ValueError for a kind that is not one of KINDS.
    """
    if kind not in KINDS:
        raise ValueError(f"a sentence is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {kind!r}")
    return f"{place}, {kind} {source}".strip()
