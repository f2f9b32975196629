"""torchvision's networks for images as they come: uint8, channels last, grey or coloured (pvr, appendix A)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchvision import models


class ImageClassifier(nn.Module):
    """A network of torchvision with random weights and `num_classes` outputs.

    Args:
        network: Maps float images (batch, 3, height, width) to logits.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return logits float32 (batch, num_classes) of images uint8 (batch, height, width, 1 or 3)."""
        scaled = images.permute(0, 3, 1, 2).to(torch.float32) / 255.0
        return self.network(scaled.expand(-1, 3, -1, -1))


class ResNet18(ImageClassifier):
    """ResNet18 (K. He et al., 2016).

    Args:
        num_classes: Number of labels.
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__(models.resnet18(weights=None, num_classes=num_classes))


class VGG11BN(ImageClassifier):
    """VGG11 with batch normalisation (K. Simonyan and A. Zisserman, 2014).

    Args:
        num_classes: Number of labels.
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__(models.vgg11_bn(weights=None, num_classes=num_classes))
