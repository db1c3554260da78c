"""Class-wise adversarial robustness: attacks, defences and per-class results that can be rerun."""

import sys

# jsonschema would compile a grammar of IRIs for a second, in every process that imports altair or nbformat.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

__version__ = "0.2.0"
