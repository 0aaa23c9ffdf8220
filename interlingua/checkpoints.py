"""What a checkpoint says about itself: enough to build its model again, alone and without unpickling anything."""

import os
from pathlib import Path
from typing import Any

from .configuration import ConfigurationError

CONFIGURATION = "configuration"
"""Key under which a checkpoint holds its resolved configuration."""


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Tensors and plain containers of a checkpoint, on the CPU.

    Raises:
        ConfigurationError: There is no such file, it is damaged, or it holds more than tensors and plain containers.
    """
    import pickle  # for its error only
    import warnings

    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about protocols of pickles that are refused
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None
    except pickle.UnpicklingError:
        raise ConfigurationError(
            f"{path}: not a checkpoint of tensors and plain containers; it is no checkpoint, or holds other Python objects, "
            "which could run code when loaded: give the .ckpt that `interlingua fit` wrote"
        ) from None
    except Exception:  # whatever torch makes of half a file, or of a text
        raise ConfigurationError(
            f"{path}: not a checkpoint, or cut short ({os.path.getsize(path):,} bytes); copy it anew, or take an older one"
        ) from None
    if not isinstance(checkpoint, dict):
        raise ConfigurationError(f"{path}: not a checkpoint; found a {type(checkpoint).__name__}, expected a mapping")
    return checkpoint


def read_configuration(path: str | Path) -> dict[str, Any]:
    """The resolved configuration that a checkpoint was trained with.

    Raises:
        ConfigurationError: The checkpoint cannot be read, or holds none.
    """
    checkpoint = read_checkpoint(path)
    if CONFIGURATION not in checkpoint:
        raise ConfigurationError(
            f"{path}: holds no configuration (found {', '.join(map(str, checkpoint))}); give --config FILE"
        )
    return checkpoint[CONFIGURATION]


def without_start(node: dict[str, Any]) -> dict[str, Any]:
    """A model's node without the file that its training started from, which need not be there any more."""
    start = ("initial", "initial_heads")
    return {**node, "init_args": {name: value for name, value in (node.get("init_args") or {}).items() if name not in start}}


def load_model(path: str | Path, tokenizer: str | None = None) -> Any:
    """The trained LightningModule of a checkpoint, built from the checkpoint alone, in evaluation mode.

    Args:
        path: Of the checkpoint.
        tokenizer: Where the tokenizer's file is now; None: where it was.

    Raises:
        ConfigurationError: The checkpoint cannot be read, or its configuration does not fit the code.
        ValueError: The tokenizer is not the one that it was trained with.
    """
    from lightning.pytorch import LightningModule

    from .checking import build, check_class

    checkpoint = read_checkpoint(path)
    if CONFIGURATION not in checkpoint:
        raise ConfigurationError(f"{path}: holds no configuration (found {', '.join(map(str, checkpoint))})")
    node = without_start(checkpoint[CONFIGURATION]["model"])
    if tokenizer is not None and "tokenizer" in node["init_args"]:
        node["init_args"]["tokenizer"] = tokenizer
    check_class("model", node)
    model = build(LightningModule, node)
    tell_tokenizer(path, checkpoint, model)
    model.load_state_dict(checkpoint["state_dict"])
    return model.eval()


def tell_tokenizer(path: str | Path, checkpoint: dict[str, Any], model: Any) -> None:
    """Refuse a tokenizer that is not the one a checkpoint was trained with; say so where the checkpoint does not tell.

    Args:
        path: Of the checkpoint, for messages.
        checkpoint: What it holds.
        model: As it was built; only its `tokenizer` and `encoder` are looked at, where it has them.

    Raises:
        ValueError: It is another one.
    """
    import sys

    from .modalities.tokenizer import Tokenizer
    from .modalities.trained_tokenizer import KEY, check_trained

    tokenizer, encoder = getattr(model, "tokenizer", None), getattr(model, "encoder", None)
    if isinstance(tokenizer, Tokenizer) and getattr(encoder, "vocabulary", None) is not None:
        by_language = bool(getattr(encoder, "languages", 0))
        mend = "give `data.tokenizer` the one that it was trained with"
        if note := check_trained(checkpoint.get(KEY), tokenizer, str(path), by_language, mend):
            print(note, file=sys.stderr)
