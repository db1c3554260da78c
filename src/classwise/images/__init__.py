"""Labelled images, whole, as uint8 on the device: datasets, how they vary in training, how they are changed for a question."""

from classwise.images.arrays import cifar10, cifar100, digits, fashion_mnist, mnist, stl10, svhn
from classwise.images.augmentation import AUGMENTATIONS, crop_flip
from classwise.images.corruptions import CORRUPTIONS, corrupt
from classwise.images.datasets import DATASETS, FAMILIES, absolute, load, peopled, reader
from classwise.images.extra import extra, extra_folders
from classwise.images.folders import folder, imagenet, tiny_imagenet
from classwise.images.labelled import SPLITS, Images
from classwise.images.transforms import TRANSFORMS, transform
from classwise.superclasses import SUPERCLASSES, superclasses

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
    "peopled",
    "reader",
    "stl10",
    "superclasses",
    "svhn",
    "tiny_imagenet",
    "transform",
]
