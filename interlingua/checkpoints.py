"""What a checkpoint says about itself: enough to build its model again, alone and without unpickling anything."""

from pathlib import Path
from typing import Any

from .configuration import ConfigurationError

CONFIGURATION = "configuration"
"""Key under which a checkpoint holds its resolved configuration."""


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Tensors and plain containers of a checkpoint, on the CPU.

    Raises:
        ConfigurationError: There is no such file, or it holds more than tensors and plain containers.
    """
    import pickle  # for its error only

    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise ConfigurationError(f"{path}: not a checkpoint of tensors and plain containers: {reason}") from None


def read_configuration(path: str | Path) -> dict[str, Any]:
    """The resolved configuration that a checkpoint was trained with.

    Raises:
        ConfigurationError: The checkpoint cannot be read, or holds none.
    """
    checkpoint = read_checkpoint(path)
    if CONFIGURATION not in checkpoint:
        raise ConfigurationError(f"{path}: holds no configuration (found {', '.join(checkpoint)}); give --config FILE")
    return checkpoint[CONFIGURATION]


def load_model(path: str | Path) -> Any:
    """The trained LightningModule of a checkpoint, built from the checkpoint alone, in evaluation mode.

    Raises:
        ConfigurationError: The checkpoint cannot be read, or its configuration does not fit the code.
    """
    from lightning.pytorch import LightningModule

    from .checking import build, check_class

    checkpoint = read_checkpoint(path)
    if CONFIGURATION not in checkpoint:
        raise ConfigurationError(f"{path}: holds no configuration (found {', '.join(checkpoint)})")
    node = checkpoint[CONFIGURATION]["model"]
    check_class("model", node)
    model = build(LightningModule, node)
    model.load_state_dict(checkpoint["state_dict"])
    return model.eval()
