"""Regions by a detector of torchvision: Faster R-CNN and its kin (arXiv:1506.01497), chosen as bottom-up attention does.

Of each proposal the most probable class that is not background and its box; boxes that overlap surer ones of any class are
suppressed; the surest are kept (arXiv:1707.07998, section 3.1). Features are what the box head makes of the boxes as they are
kept, class probabilities those of the proposal, background first.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...modalities.image import decode_image
from ...modalities.region import SMALLEST, FoundRegions
from .interpret import choose
from .maker import Prepared

CLASSIFIER = "roi_heads.box_predictor.cls_score.weight"


class Choice(NamedTuple):
    """Which regions are kept."""

    threshold: float = 0.2
    """Confidence ..."""
    least: int = 10
    """... below which so many are kept, if there are, ..."""
    most: int = 36
    """... and at most so many."""
    overlap: float = 0.5
    """Intersection over union with a surer box from which on a box is suppressed."""


def build_detector(name: str, weights: Path | None, classes: int = 91, **arguments: Any) -> nn.Module:
    """A detector of torchvision with a box head.

    Args:
        name: A name of `torchvision.models.detection`.
        weights: File of its parameters by torchvision's names; it tells the number of classes. None: a random start.
        classes: Background among them, of a random start.
        arguments: More of torchvision's own.

    Raises:
        ValueError: There is no such detector, it has no box head, or the file does not fit.
    """
    import torchvision

    known = torchvision.models.list_models(module=torchvision.models.detection)
    fit = [own for own in known if "rcnn" in own]
    if name not in fit:
        why = "has no box head, whose features regions need" if name in known else "is no detector of torchvision"
        raise ValueError(f"--detector {name} {why}; those that fit: {', '.join(fit)}")
    state = {} if weights is None else _read(weights)
    classes = len(state[CLASSIFIER]) if state else classes
    build = getattr(torchvision.models.detection, name)
    model = build(weights=None, weights_backbone=None, num_classes=classes, **arguments)
    if state:
        missing, unexpected = model.load_state_dict(state, strict=False)
        missing = [key for key in missing if not key.endswith("num_batches_tracked")]
        if missing or unexpected:
            raise ValueError(
                f"{weights}: no weights of {name}: {len(missing)} missing ({', '.join(missing[:2])}), {len(unexpected)} with "
                f"no place ({', '.join(unexpected[:2])}); choose the detector that the file was trained as"
            )
    return model.eval()


def _read(weights: Path) -> dict[str, Tensor]:
    if weights.suffix == ".safetensors":
        from safetensors.torch import load_file

        state: Any = load_file(weights)
    else:
        state = torch.load(weights, map_location="cpu", weights_only=True)
    for key in ("model", "state_dict"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or CLASSIFIER not in state:
        raise ValueError(f"{weights}: no weights of a detector with a box head; expected {CLASSIFIER} among them")
    return state


class Detector:
    """Finds objects. Pictures of one size are read together, so that none is padded for another's sake."""

    def __init__(self, model: Any, choice: Choice, about: dict[str, Any], device: str = "cpu"):
        """
        Args:
            model: As `build_detector` makes it.
            choice: Which regions are kept.
            about: What tells this detector from others.
            device: Where it computes.
        """
        self.model, self.choice, self.about, self.device = model.to(device).eval(), choice, about, device

    def describe(self) -> dict[str, Any]:
        """What the regions depend on."""
        return {"maker": "detector", **self.about, "choice": list(self.choice)}

    def prepare(self, data: bytes) -> Prepared:
        """The picture as it is."""
        pixels = decode_image(data)
        return Prepared(pixels, (pixels.shape[2], pixels.shape[1]))

    @torch.inference_mode()
    def find(self, pictures: Sequence[Prepared]) -> list[FoundRegions]:
        """What is in each picture, the surest first."""
        alike: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, picture in enumerate(pictures):
            alike[picture.size].append(number)
        found: dict[int, FoundRegions] = {}
        for numbers in alike.values():
            pixels = [pictures[number].pixels.to(self.device) / 255 for number in numbers]
            found |= zip(numbers, self._find(pixels, pictures[numbers[0]].size), strict=True)
        return [found[number] for number in range(len(pictures))]

    def _find(self, pixels: list[Float[Tensor, "3 H W"]], size: tuple[int, int]) -> list[FoundRegions]:
        model, heads = self.model, self.model.roi_heads
        images, _ = model.transform(pixels)
        maps = model.backbone(images.tensors)
        maps = {"0": maps} if isinstance(maps, Tensor) else maps
        proposals, _ = model.rpn(images, maps)
        logits, changes = heads.box_predictor(heads.box_head(heads.box_roi_pool(maps, proposals, images.image_sizes)))
        boxes = heads.box_coder.decode(changes, proposals)  # [proposals, classes, 4]
        counts = [len(own) for own in proposals]
        shapes, parts = images.image_sizes, zip(boxes.split(counts), logits.softmax(1).split(counts), strict=True)
        kept = [self._choose(*part, shape) for part, shape in zip(parts, shapes, strict=True)]
        features = heads.box_head(heads.box_roi_pool(maps, [own for own, *_ in kept], shapes))
        features = features.split([len(own) for own, *_ in kept])
        return [self._tell(*part, own, size, shape) for part, own, shape in zip(kept, features, shapes, strict=True)]

    def _choose(
        self, boxes: Float[Tensor, "N K 4"], classes: Float[Tensor, "N K"], shape: tuple[int, int]
    ) -> tuple[Float[Tensor, "R 4"], Float[Tensor, "R K"]]:
        from torchvision.ops import clip_boxes_to_image, nms, remove_small_boxes

        confidence, label = classes[:, 1:].max(1)
        boxes = clip_boxes_to_image(boxes[torch.arange(len(boxes), device=boxes.device), label + 1], shape)
        large = remove_small_boxes(boxes, 1.0)
        boxes, confidence, classes = boxes[large], confidence[large], classes[large]
        apart = nms(boxes, confidence, self.choice.overlap)
        boxes, confidence, classes = boxes[apart], confidence[apart], classes[apart]
        choice = self.choice
        rows = choose(confidence.double().cpu().numpy(), choice.threshold, choice.least, choice.most)
        chosen = torch.from_numpy(np.ascontiguousarray(rows)).to(boxes.device)
        return boxes[chosen], classes[chosen]

    @staticmethod
    def _tell(
        boxes: Float[Tensor, "R 4"],
        classes: Float[Tensor, "R K"],
        features: Float[Tensor, "R F"],
        size: tuple[int, int],
        shape: tuple[int, int],
    ) -> FoundRegions:
        """Boxes in the picture's own pixels."""
        scale = torch.tensor([size[0] / shape[1], size[1] / shape[0]] * 2, device=boxes.device)
        scaled = (boxes * scale).cpu()
        wide = (scaled[:, 2:] - scaled[:, :2] > SMALLEST).all(1)  # a picture may be made larger for the detector
        confidence, label = classes[:, 1:].max(1)
        arrays = {"classes": classes, "label": label + 1, "confidence": confidence}
        told = {name: value.cpu()[wide].numpy() for name, value in arrays.items()}
        return FoundRegions(scaled[wide].numpy(), size, features.float().cpu()[wide].numpy(), **told)
