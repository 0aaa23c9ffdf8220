"""Any backbone of timm as an image front end: whatever it gives out, tokens or a feature map, becomes vectors [B, P, D]."""

import logging
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .batch import Image
from .image_front_ends import Normalise
from .positions import resample_flat

log = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """What became of the names of a checkpoint."""

    matched: tuple[str, ...]
    missing: tuple[str, ...]
    """Parameters of the backbone that the file does not have: they keep their random start."""
    unexpected: tuple[str, ...]
    """What the file has and the backbone does not, such as a classifier."""


class TimmImage(nn.Module):
    """A timm backbone without its classifier. Prefix tokens (class, registers) are left out of its vectors.

    Batch norm keeps the statistics it was loaded with, in training too: a picture must not depend on its batch-mates,
    still less on the zeros of absent pictures. To train from nothing choose a backbone with another norm.

    Attributes:
        backbone: The model as timm built it.
        loaded: What was found in `checkpoint`; None where none was given.
    """

    backbone: Any

    def __init__(
        self,
        name: str,
        size: int = 224,
        width: int | None = None,
        pretrained: bool = False,
        checkpoint: Path | str | None = None,
        checkpoint_grid: tuple[int, int] | None = None,
    ):
        """
        Args:
            name: A name that `timm.list_models()` knows.
            size: Height and width of the pictures in pixels. ViT-like backbones take other sizes too, at run time.
            width: Size D of the vectors, by a linear layer; None: the backbone's own.
            pretrained: Fetch timm's weights for this name from the Hugging Face hub (or take them from its cache).
            checkpoint: File of weights with the names of timm: safetensors, or a plain torch file of tensors.
            checkpoint_grid: Rows and columns of the file's position table, where it is not square.

        Raises:
            ImportError: timm is not installed.
            ValueError: The name is unknown, or the file does not fit it.
            ConnectionError: The hub cannot be reached.
        """
        super().__init__()
        self.backbone = _create(name, size, pretrained)
        self.loaded = None if checkpoint is None else load_backbone(self.backbone, Path(checkpoint), checkpoint_grid)
        own = getattr(self.backbone, "head_hidden_size", None) or self.backbone.num_features
        self.width = width or own
        self.project = nn.Identity() if self.width == own else nn.Linear(own, self.width)
        self.normalise = Normalise(self.backbone.pretrained_cfg["mean"], self.backbone.pretrained_cfg["std"])
        self._counts: dict[tuple[int, int], int] = {}
        if any(isinstance(module, _BatchNorm) for module in self.modules()) and not (pretrained or checkpoint):
            log.warning("%s has batch norm, whose statistics stay as they are: choose another norm to train from nothing", name)
        self.train()

    def train(self, mode: bool = True) -> "TimmImage":
        """As of any module, but batch norm never leaves evaluation."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self

    def count(self, height: int, width: int) -> int:
        """Number of vectors P of a picture; found by trying, once for each size."""
        if (height, width) not in self._counts:
            black = self.normalise.mean.new_zeros(1, 3, height, width)
            with torch.no_grad():
                self._counts[height, width] = self._flatten(self.backbone(black)).shape[1]
        return self._counts[height, width]

    def forward(self, image: Image) -> Float[Tensor, "B P D"]:
        """The backbone's last vectors, row by row."""
        if image.hidden is not None:
            raise ValueError(
                "a timm backbone cannot hide parts of its pictures: use Patches or ConvolutionStem, `maskable: true`"
            )
        return self.project(self._flatten(self.backbone(self.normalise(image.pixels, channels=1))))

    def _flatten(self, features: Tensor) -> Float[Tensor, "B P D"]:
        if features.ndim == 3:
            return features[:, getattr(self.backbone, "num_prefix_tokens", 0) :]
        if str(getattr(self.backbone, "output_fmt", "NCHW")) == "NHWC":  # Swin and its kin
            return features.flatten(1, 2)
        return features.flatten(2).transpose(1, 2)


def load_backbone(backbone: Any, path: Path, grid: tuple[int, int] | None = None) -> Loaded:
    """Load a file of weights by name; its position table is resampled wherever its grid differs, equal counts or not.

    Args:
        backbone: A timm model.
        path: File with timm's names.
        grid: Rows and columns of the file's position table; None: square.

    Raises:
        ValueError: No name matches, or a shape differs.
    """
    found, own = _read(path), backbone.state_dict()
    matched = [name for name in own if name in found]
    if not matched:
        raise ValueError(
            f"{path}: none of its {len(found)} names ({', '.join(list(found)[:3])}, ...) is one of the backbone's "
            f"({', '.join(list(own)[:3])}, ...); rename them as timm does"
        )
    if "pos_embed" in matched and own["pos_embed"].ndim == 3 and found["pos_embed"].ndim == 3:
        prefix = 0 if getattr(backbone, "no_embed_class", False) else getattr(backbone, "num_prefix_tokens", 0)
        rows, columns = backbone.patch_embed.grid_size
        found["pos_embed"] = resample_flat(found["pos_embed"][0], prefix, rows, columns, grid)[None]
    for name in matched:
        if found[name].shape != own[name].shape:
            raise ValueError(
                f"{path}: {name} is {tuple(found[name].shape)}, the backbone's is {tuple(own[name].shape)}; "
                "choose the backbone that the file was trained as"
            )
    backbone.load_state_dict({name: found[name] for name in matched}, strict=False)
    loaded = Loaded(
        tuple(matched), tuple(name for name in own if name not in found), tuple(name for name in found if name not in own)
    )
    level = logging.WARNING if loaded.missing else logging.INFO
    counts = f"{len(matched)} names matched, {len(loaded.missing)} missing, {len(loaded.unexpected)} unexpected"
    log.log(level, "%s: %s; missing: %s; unexpected: %s", path, counts, _some(loaded.missing), _some(loaded.unexpected))
    return loaded


def _create(name: str, size: int, pretrained: bool) -> Any:
    try:
        import timm
    except ImportError:
        raise ImportError(f"the backbone {name!r} needs timm: pip install interlingua[timm]") from None
    if not timm.is_model(name):
        near = timm.list_models(f"*{name.split('.')[0][:6]}*")[:5]
        raise ValueError(f"timm knows no backbone {name!r}" + (f"; similar: {', '.join(near)}" if near else ""))
    if pretrained:
        _check_hub(name)
    # What a family takes about sizes: tokens of any size, of one size, or (feature maps) nothing at all.
    sizes: list[dict[str, Any]] = [{"img_size": size, "dynamic_img_size": True}, {"img_size": size}, {}]
    for arguments in sizes:
        try:
            return timm.create_model(name, pretrained=pretrained, num_classes=0, global_pool="", **arguments)
        except TypeError:
            if not arguments:
                raise
        except AssertionError as error:
            raise ValueError(f"{name}: timm cannot build it without its pooling ({error}); choose another backbone") from None
        except OSError as error:  # the hub's own errors are among them
            raise ConnectionError(f"{name}: no pretrained weights ({type(error).__name__}); {HUB_HELP}") from error
    raise AssertionError


HUB_HELP = "give `checkpoint` a local file, or, with HF_HUB_OFFLINE=1, have them in the hub's cache"


def _check_hub(name: str) -> None:
    """Without a network the hub's client tries for most of a minute before it says so."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return
    try:
        urllib.request.urlopen(constants.ENDPOINT, timeout=5).close()
    except urllib.error.HTTPError:
        return  # somebody answers
    except OSError as error:
        raise ConnectionError(f"{name}: {constants.ENDPOINT} cannot be reached ({error}); {HUB_HELP}") from None


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    state = torch.load(path, map_location="cpu", weights_only=True)
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "none"
