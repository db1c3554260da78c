"""Labelled images as uint8 arrays on the device: datasets, augmentation in training, transforms before an evaluation."""

from classwise.core.datasets import DATASETS, DatasetInfo, superclasses
from classwise.images.corruptions import CORRUPTIONS, corrupt
from classwise.images.folders import extra, extra_folders, folder, imagenet, tiny_imagenet
from classwise.images.images import AUGMENTATIONS, SPLITS, Images, crop_flip
from classwise.images.registry import TRANSFORMS, absolute, load, reader, transform
from classwise.images.standard import cifar10, cifar100, digits, fashion_mnist, mnist, stl10, svhn

__all__ = ["AUGMENTATIONS", "CORRUPTIONS", "DATASETS", "SPLITS", "TRANSFORMS", "DatasetInfo", "Images", "absolute"]
__all__ += ["cifar10", "cifar100", "corrupt", "crop_flip", "digits", "extra", "extra_folders", "fashion_mnist"]
__all__ += ["folder", "imagenet", "load", "mnist", "reader", "stl10", "superclasses", "svhn", "tiny_imagenet"]
__all__ += ["transform"]
