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
    arguments = {name: value for name, value in (node.get("init_args") or {}).items() if name != "initial"}
    return {**node, "init_args": arguments}


def load_model(path: str | Path, tokenizer: str | None = None) -> Any:
    """The trained LightningModule of a checkpoint, built from the checkpoint alone, in evaluation mode.

    Args:
        path: Of the checkpoint.
        tokenizer: Where the tokenizer's file is now; None: where it was.

    Raises:
        ConfigurationError: The checkpoint cannot be read, or its configuration does not fit the code.
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
    model.load_state_dict(checkpoint["state_dict"])
    return model.eval()
