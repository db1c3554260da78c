"""Labelled images, whole, as uint8 on the device: datasets, how they vary in training, how they are changed for a question."""

from classwise.core.datasets import SUPERCLASSES, superclasses
from classwise.images.augmentation import AUGMENTATIONS, crop_flip
from classwise.images.corruptions import CORRUPTIONS, corrupt
from classwise.images.folders import folder, imagenet, tiny_imagenet
from classwise.images.images import SPLITS, Images
from classwise.images.pseudo_labels import extra, extra_folders
from classwise.images.registry import DATASETS, FAMILIES, absolute, load, reader, require_every_class
from classwise.images.standard import cifar10, cifar100, digits, fashion_mnist, mnist, stl10, svhn
from classwise.images.transforms import TRANSFORMS, transform

__all__ = [
    "AUGMENTATIONS",
    "CORRUPTIONS",
    "DATASETS",
    "FAMILIES",
    "SPLITS",
    "SUPERCLASSES",
    "TRANSFORMS",
    "Images",
    "absolute",
    "cifar10",
    "cifar100",
    "corrupt",
    "crop_flip",
    "digits",
    "extra",
    "extra_folders",
    "fashion_mnist",
    "folder",
    "imagenet",
    "load",
    "mnist",
    "reader",
    "require_every_class",
    "stl10",
    "superclasses",
    "svhn",
    "tiny_imagenet",
    "transform",
]
