"""CIFAR-10H: how many people took each test image of CIFAR-10 for which class (Peterson et al. 2019), from its publisher.

Its licence, CC BY-NC-SA 4.0, forbids bundling the file with this project.
"""

import hashlib
from pathlib import Path

import torch

from classwise.core.errors import UserError
from classwise.core.paths import check_folder, images_folder

URL = "https://raw.githubusercontent.com/jcpeterson/cifar-10h/master/data/cifar10h-counts.npy"
SHA256 = "9b36b4550349af56c79083356312eb4af856cc5fd3caf1f669d40b9d0bbb69ff"


def fetch() -> Path:
    """Return the file of votes, int64 (image, class), in the folder of images, downloaded if it is not there, and checked.

    A UserError says where to put the file if it cannot be downloaded, and what to do with one that is not the published one.
    """
    path = images_folder() / URL.rpartition("/")[2]
    if not path.exists():
        check_folder(path.parent, "the folder of images")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(URL, str(path), SHA256, progress=False)
        except (OSError, RuntimeError) as error:  # no network, no such file; cut off, another file
            advice = f"put the file into {path.parent}, or set CLASSWISE_IMAGES to the folder that has it"
            raise UserError(f"CIFAR-10H cannot be downloaded from {URL} ({error}); {advice}") from None
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise UserError(f"{path} is not the file of votes that {URL} had: its sha256 is another; delete it and fetch it again")
    return path
