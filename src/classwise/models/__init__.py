"""Networks that take pixels in [0, 1] and normalise them; `features()` returns the input of the last layer."""

from classwise.models.architectures import LARGE, Design
from classwise.models.classifier import MODELS, Classifier, build, check_fit, make
from classwise.models.layers import HEADS, LAYERS, BatchInstanceNorm, CosineHead
from classwise.models.state_dicts import differences, last_layer, load_matching, read, strip_prefix, width

__all__ = ["HEADS", "LARGE", "LAYERS", "MODELS", "BatchInstanceNorm", "Classifier", "CosineHead", "Design", "build"]
__all__ += ["check_fit", "differences", "last_layer", "load_matching", "make", "read", "strip_prefix", "width"]
