"""A layer made of a function, for networks that tests bend."""

from torch import nn


class Layer(nn.Module):
    """What a function of a batch returns: before a network of what it sees, after it of its logits."""

    def __init__(self, function):
        super().__init__()
        self.forward = function
