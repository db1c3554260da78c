"""A ResNet of two blocks without batch norm, as alpha-beta-CROWN names its layers."""

from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1)
        self.shortcut = nn.Sequential() if before == after else nn.Sequential(nn.Conv2d(before, after, 1, stride))

    def forward(self, x):
        return F.relu(self.conv2(F.relu(self.conv1(x))) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1)
        self.layer1 = nn.Sequential(Block(8, 16, 2), Block(16, 16, 1))
        self.linear1 = nn.Linear(1024, 100)
        self.linear2 = nn.Linear(100, 10)

    def forward(self, x):
        x = self.layer1(F.relu(self.conv1(x)))
        return self.linear2(F.relu(self.linear1(x.flatten(1))))


def resnet2b() -> ResNet:
    return ResNet()
