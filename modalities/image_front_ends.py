"""Image front ends: from the bytes of a batch's pictures to vectors on a grid, normalised on the device.

Every front end has `width` (D), `count(height, width)` (how many vectors P it makes of a picture) and reads an `Image` to
`[B, P, D]`, row by row. No picture depends on its batch-mates. Rows of absent pictures are finite and mean nothing.
Any backbone of timm is a front end too: see `timm_image`.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn

from .batch import Image
from .positions import GridPositions

HALVES = (0.5, 0.5, 0.5)


class Patches(nn.Module):
    """Square patches, each through one linear layer, with learned positions. ViT, arXiv:2010.11929, section 3.1.

    The convolution of that paper as a product over unfolded bytes: equal (`weight` is its kernel, flattened) and faster.
    """

    def __init__(
        self,
        width: int,
        patch: int = 16,
        size: int = 224,
        maskable: bool = False,
        mean: Sequence[float] = HALVES,
        std: Sequence[float] = HALVES,
    ):
        """
        Args:
            width: Size D of the vectors.
            patch: Height and width of a patch in pixels.
            size: Height and width in pixels of the pictures that the positions are laid out for; others are resampled.
            maskable: Learn a vector that stands for hidden patches (`Image.hidden`).
            mean, std: Of red, green and blue, as fractions of 255.
        """
        super().__init__()
        self.width, self.patch = width, patch
        self.normalise = Normalise(mean, std)
        self.project = nn.Linear(3 * patch * patch, width)
        self.mask = make_mask(width, maskable)
        self.positions = GridPositions(width, *self.grid(size, size))

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of patches."""
        if height % self.patch or width % self.patch or not height or not width:
            raise ValueError(
                f"a picture of {width} x {height} pixels does not divide into patches of {self.patch}; "
                f"choose an image size that is a multiple of {self.patch}"
            )
        return height // self.patch, width // self.patch

    def count(self, height: int, width: int) -> int:
        """Number of vectors P of a picture."""
        rows, columns = self.grid(height, width)
        return rows * columns

    def forward(self, image: Image) -> Float[Tensor, "B P D"]:
        """Vectors of the patches, row by row."""
        rows, columns = self.grid(*image.pixels.shape[2:])
        cells = image.pixels.unflatten(3, (columns, self.patch)).unflatten(2, (rows, self.patch))
        cells = cells.permute(0, 2, 4, 1, 3, 5).flatten(4).flatten(1, 2)  # [B, P, 3, patch x patch], still bytes
        vectors = self.project(self.normalise(cells, channels=2).flatten(2))
        return hide(vectors, image.hidden, self.mask) + self.positions(rows, columns)


class ConvolutionStem(nn.Module):
    """3 x 3 convolutions of stride 2, then learned positions: learns from few pictures what patches do not.

    "Early convolutions help transformers see better", arXiv:2106.14881, section 4. Layer norm over the channels takes the
    place of batch norm, so that a picture does not depend on the others; residual blocks may follow.
    """

    def __init__(
        self,
        width: int,
        channels: Sequence[int] = (64, 128, 256),
        blocks: int = 1,
        size: int = 32,
        maskable: bool = False,
        mean: Sequence[float] = HALVES,
        std: Sequence[float] = HALVES,
    ):
        """
        Args:
            width: Size D of the vectors.
            channels: Of each convolution; each halves height and width (rounding up).
            blocks: Residual blocks (norm, ReLU, 3 x 3 convolution) on the last grid.
            size: Height and width in pixels of the pictures that the positions are laid out for; others are resampled.
            maskable: Learn a vector that stands for hidden cells (`Image.hidden`).
            mean, std: Of red, green and blue, as fractions of 255.
        """
        super().__init__()
        self.width, self.halvings = width, len(channels)
        self.normalise = Normalise(mean, std)
        stages: list[nn.Module] = []
        for before, after in zip((3, *channels[:-1]), channels, strict=True):
            convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
            stages.append(nn.Sequential(convolution, ChannelNorm(after), nn.ReLU(inplace=True)))
        self.stages = nn.Sequential(*stages, *(Residual(channels[-1]) for _ in range(blocks)))
        self.project = nn.Linear(channels[-1], width)
        self.mask = make_mask(width, maskable)
        self.positions = GridPositions(width, *self.grid(size, size))

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the last feature map."""
        for _ in range(self.halvings):
            height, width = -(-height // 2), -(-width // 2)
        return height, width

    def count(self, height: int, width: int) -> int:
        """Number of vectors P of a picture."""
        rows, columns = self.grid(height, width)
        return rows * columns

    def forward(self, image: Image) -> Float[Tensor, "B P D"]:
        """Vectors of the cells of the last feature map, row by row."""
        # Channels side by side: the norm reads them without a copy, and so do the convolutions.
        pixels = self.normalise(image.pixels, channels=1).contiguous(memory_format=torch.channels_last)
        features = self.stages(pixels).permute(0, 2, 3, 1)  # [B, rows, columns, channels]
        vectors = self.project(features.flatten(1, 2))
        return hide(vectors, image.hidden, self.mask) + self.positions(*features.shape[1:3])


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of each cell of a feature map."""

    def forward(self, features: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        return super().forward(features.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Residual(nn.Module):
    """What a normalised 3 x 3 convolution adds to a feature map."""

    def __init__(self, channels: int):
        super().__init__()
        convolution = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.change = nn.Sequential(ChannelNorm(channels), nn.ReLU(inplace=True), convolution)

    def forward(self, features: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        return features + self.change(features)


class Normalise(nn.Module):
    """Bytes to numbers around 0, in the precision of the module; mean and deviation travel with the weights."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]):
        super().__init__()
        self.register_buffer("mean", 255 * torch.tensor(tuple(mean)))
        self.register_buffer("std", 255 * torch.tensor(tuple(std)))

    def forward(self, pixels: UInt8[Tensor, "..."], channels: int) -> Float[Tensor, "..."]:
        """
        Args:
            pixels: Bytes of any shape.
            channels: Axis of red, green and blue.
        """
        shape = (-1, *(1,) * (pixels.ndim - 1 - channels))
        return (pixels.to(self.mean.dtype) - self.mean.view(shape)) / self.std.view(shape)


def make_mask(width: int, maskable: bool) -> nn.Parameter | None:
    """The vector that stands for what is hidden; none where it would be a parameter that never has a gradient."""
    return nn.Parameter(torch.randn(width) * 0.02) if maskable else None


def hide(
    vectors: Float[Tensor, "B P D"], hidden: Bool[Tensor, "B P"] | None, mask: Float[Tensor, "D"] | None
) -> Float[Tensor, "B P D"]:
    """Put the mask vector in the place of hidden ones; before positions are added, so that their place is still known."""
    if hidden is None:
        return vectors if mask is None else vectors + 0 * mask  # a gradient path for the reducer
    if mask is None:
        raise ValueError("this batch hides parts of its pictures, but the image front end has no mask vector: `maskable: true`")
    return torch.where(hidden[..., None], mask.to(vectors.dtype), vectors)
