"""Networks that take pixels in [0, 1] and normalise them; `features()` returns the input of the last layer."""

from classwise.models.architectures import LARGE, Design
from classwise.models.classifier import MODELS, Classifier, build, check_fit, make
from classwise.models.layers import HEADS, LAYERS, BatchInstanceNorm, CosineHead
from classwise.models.state_dicts import last_layer, load_into, load_matching, read, width

__all__ = ["HEADS", "LARGE", "LAYERS", "MODELS", "BatchInstanceNorm", "Classifier", "CosineHead", "Design", "build"]
__all__ += ["check_fit", "last_layer", "load_into", "load_matching", "make", "read", "width"]
