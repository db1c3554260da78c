"""Class-wise adversarial robustness: attacks, defences and per-class results that can be rerun."""

__version__ = "0.2.0"
