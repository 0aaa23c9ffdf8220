"""A grid over a picture, or several: each cell is a region, with features of a backbone or a tower."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, UInt8
from torch import Tensor, nn

from ...modalities.augmentation import ImageTransform
from ...modalities.batch import Image
from ...modalities.image import decode_image
from ...modalities.region import FoundRegions
from .maker import Prepared

Grids = Sequence[tuple[int, int]]
"""Rows and columns of each."""


def cells(grids: Grids, width: int, height: int) -> Float32[np.ndarray, "R 4"]:
    """Corners in pixels of the cells of all grids, row by row.

    Args:
        grids: Rows and columns of each.
        width, height: Of the picture in pixels.
    """
    boxes = [
        (width * column / columns, height * row / rows, width * (column + 1) / columns, height * (row + 1) / rows)
        for rows, columns in grids
        for row in range(rows)
        for column in range(columns)
    ]
    return np.array(boxes, np.float32).reshape(-1, 4)


class BackboneGrid:
    """Cells of the feature map of a backbone over the whole picture, the means of what lies in them."""

    def __init__(self, front_end: nn.Module, size: int, grids: Grids, about: dict[str, Any], device: str = "cpu"):
        """
        Args:
            front_end: Turns an `Image` into `[B, P, D]`, P cells of a square map row by row (`TimmImage` is one).
            size: Height and width in pixels that pictures are stretched to.
            grids: Rows and columns of each.
            about: What tells this front end from others: its name, and where its weights are from.
            device: Where it computes.
        """
        self.front_end, self.device, self.about = front_end.to(device).eval(), device, about
        self.grids, self.transform = tuple(grids), ImageTransform(size)

    def describe(self) -> dict[str, Any]:
        """What the features depend on."""
        return {"maker": "backbone", **self.about, "size": self.transform.size, "grids": [list(grid) for grid in self.grids]}

    def prepare(self, data: bytes) -> Prepared:
        """The picture, stretched to a square."""
        pixels = decode_image(data)
        return Prepared(self.transform(pixels), (pixels.shape[2], pixels.shape[1]))

    @torch.inference_mode()
    def find(self, pictures: Sequence[Prepared]) -> list[FoundRegions]:
        """The cells of each picture."""
        pixels = torch.stack([picture.pixels for picture in pictures]).to(self.device)
        vectors = self.front_end(Image(pixels, torch.ones(len(pixels), dtype=torch.bool, device=self.device)))
        side = round(vectors.shape[1] ** 0.5)
        if side * side != vectors.shape[1]:
            raise ValueError(f"{self.about}: {vectors.shape[1]} vectors of a square picture are no square map; take another")
        features = _pool(vectors.float().transpose(1, 2).unflatten(2, (side, side)), self.grids).cpu().numpy()
        return [
            FoundRegions(cells(self.grids, *picture.size), picture.size, own)
            for picture, own in zip(pictures, features, strict=True)
        ]


def _pool(maps: Float[Tensor, "B D rows columns"], grids: Grids) -> Float[Tensor, "B R D"]:
    pooled = [F.adaptive_avg_pool2d(maps, grid).flatten(2).transpose(1, 2) for grid in grids]
    return torch.cat(pooled, dim=1)


Tower = Callable[[Image], Float[Tensor, "N D"]]


class CropGrid:
    """Cells of the picture itself: each is cut out, resized, and read by a tower as if it were a picture."""

    def __init__(
        self, tower: Tower, size: int, grids: Grids, about: dict[str, Any], device: str = "cpu", crops_at_once: int = 512
    ):
        """
        Args:
            tower: Makes one vector of each picture; on the device already.
            size: Height and width in pixels that crops are stretched to.
            grids: Rows and columns of each.
            about: What tells this tower from others.
            device: Where it computes.
            crops_at_once: Read together.
        """
        self.tower, self.device, self.about, self.crops_at_once = tower, device, about, crops_at_once
        self.grids, self.transform = tuple(grids), ImageTransform(size)

    def describe(self) -> dict[str, Any]:
        """What the features depend on."""
        return {"maker": "crops", **self.about, "size": self.transform.size, "grids": [list(grid) for grid in self.grids]}

    def prepare(self, data: bytes) -> Prepared:
        """Crops of whole pixels, of each that a cell touches, each stretched to a square."""
        pixels = decode_image(data)
        height, width = pixels.shape[1:]
        crops = [self.transform(_crop(pixels, box)) for box in cells(self.grids, width, height).tolist()]
        return Prepared(torch.stack(crops), (width, height))

    @torch.inference_mode()
    def find(self, pictures: Sequence[Prepared]) -> list[FoundRegions]:
        """The cells of each picture."""
        crops = torch.cat([picture.pixels for picture in pictures])
        parts = []
        for part in crops.split(self.crops_at_once):
            present = torch.ones(len(part), dtype=torch.bool, device=self.device)
            parts.append(self.tower(Image(part.to(self.device), present)).float().cpu())
        features = torch.cat(parts).unflatten(0, (len(pictures), -1)).numpy()
        return [
            FoundRegions(cells(self.grids, *picture.size), picture.size, own)
            for picture, own in zip(pictures, features, strict=True)
        ]


def _crop(pixels: UInt8[Tensor, "3 H W"], box: list[float]) -> UInt8[Tensor, "3 h w"]:
    left, top = (min(int(start), end - 1) for start, end in zip(box, (pixels.shape[2], pixels.shape[1]), strict=False))
    return pixels[:, top : max(top + 1, ceil(box[3])), left : max(left + 1, ceil(box[2]))]
