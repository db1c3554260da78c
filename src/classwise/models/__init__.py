"""Networks that take pixels in [0, 1] and normalise inside; `features()` gives what the last layer reads."""

from classwise.models.classifier import MODELS, Classifier, build, make, suits
from classwise.models.design import LARGE, Design, large
from classwise.models.layers import HEADS, LAYERS, BatchInstanceNorm, CosineHead
from classwise.models.nearest import guess, last_layer, width
from classwise.models.pretrained import PRETRAINED, preset, pretrained
from classwise.models.small import small_cnn
from classwise.models.weights import adopt, differences, read, unwrapped

__all__ = [
    "HEADS",
    "LARGE",
    "LAYERS",
    "MODELS",
    "PRETRAINED",
    "BatchInstanceNorm",
    "Classifier",
    "CosineHead",
    "Design",
    "adopt",
    "build",
    "differences",
    "guess",
    "large",
    "last_layer",
    "make",
    "preset",
    "pretrained",
    "read",
    "small_cnn",
    "suits",
    "unwrapped",
    "width",
]
