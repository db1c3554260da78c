"""torchvision's ImageNet weights: downloaded, from its cache or from a file."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch

from classwise.core.errors import UserError, unknown
from classwise.models.classifier import Classifier, make
from classwise.models.state_dicts import load_matching, read

# The models with weights in torchvision, by torchvision's names.
PRETRAINED = {
    "vgg16": "vgg16",
    "vgg19": "vgg19",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "densenet121": "densenet121",
    "densenet169": "densenet169",
    "googlenet": "googlenet",
    "inception-v3": "inception_v3",
}
# These two were trained on pixels in [-1, 1]; in torchvision `transform_input` undoes the usual normalisation.
_CENTRED = ("googlenet", "inception-v3")


def _source(name: str) -> Any:
    """Return torchvision's entry for the weights of a model."""
    from torchvision.models import get_model_weights

    if name not in PRETRAINED:
        raise unknown("pretrained model", name, PRETRAINED)
    return get_model_weights(PRETRAINED[name])["IMAGENET1K_V1"]


def preset(name: str) -> tuple[int, int]:
    """Return the preprocessing of a model's weights: the length of the resized shorter side and the side of the centre crop."""
    transforms = _source(name).transforms()
    return transforms.resize_size[0], transforms.crop_size[0]


def pretrained(name: str, path: Path | str | None = None) -> Classifier:
    """Return a model of PRETRAINED with torchvision's first ImageNet weights (1000 classes), in eval mode.

    It takes pixels in [0, 1] of images resized and cropped as by `preset`; it normalises by torchvision's mean and standard
    deviation. path: a file of such weights; None for torchvision's cache (`checkpoints` in TORCH_HOME's hub folder) or a
    download. A UserError says which file to put where if neither is available, and how weights differ from the model.
    """
    source, (_, side) = _source(name), preset(name)
    state = _download(name, source) if path is None else read(path)
    transforms = source.transforms()
    statistics = (3 * [0.5], 3 * [0.5]) if name in _CENTRED else (transforms.mean, transforms.std)
    with torch.random.fork_rng(devices=[]):
        body, head = make(name, (3, side, side), 1000)
    model = Classifier(body, head, *(torch.tensor(values) for values in statistics))
    load_matching(model, state)
    return model.eval()


def _download(name: str, source: Any) -> dict[str, torch.Tensor]:
    try:
        state: dict[str, torch.Tensor] = source.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (URLError, OSError, RuntimeError) as error:  # no network; no room; a hash that differs
        folder, file = Path(torch.hub.get_dir()) / "checkpoints", source.url.rsplit("/", 1)[-1]
        advice = f"put {file} from {source.url} into {folder}, or name a file"
        raise UserError(
            f"torchvision's weights of {name} are neither cached nor can be downloaded ({error}); {advice}"
        ) from error
    return state
