"""Class-wise adversarial robustness: attacks, defences and per-class results that can be rerun."""

__version__ = "0.1.0"
