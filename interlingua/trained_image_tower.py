"""The image tower of a training checkpoint, to make features of regions: the way back from a run to its data."""

from collections.abc import Callable, Iterator
from typing import Any

from .configuration import ConfigurationError


def read_image_tower(file: str, device: str) -> tuple[Callable[[Any], Any], int | None]:
    """What makes one vector of each picture, as the run's encoder pooled them, and the size of pictures it was trained on.

    Args:
        file: The .ckpt that `interlingua fit` wrote.
        device: Where the tower goes.

    Returns:
        A function from `Image` to `[B, D]`; height and width in pixels, None where the data's configuration does not tell one.

    Raises:
        ConfigurationError: It is no checkpoint of an encoder with one image tower.
    """
    from .checking import build, check_class
    from .checkpoints import CONFIGURATION, read_checkpoint
    from .models.encoder import Encoder
    from .models.loading import load_whole
    from .models.pooling import pool
    from .models.towers import ImageTower, image_stream

    checkpoint = read_checkpoint(file)
    configuration = checkpoint.get(CONFIGURATION, {})
    node = configuration.get("model", {}).get("init_args", {}).get("encoder")
    state = checkpoint.get("state_dict")
    if node is None or not isinstance(state, dict):
        raise ConfigurationError(f"{file}: holds no configuration of an encoder; give the .ckpt that `interlingua fit` wrote")
    check_class("model.encoder", node)
    encoder = build(Encoder, node)
    weights = {name.removeprefix("encoder."): value for name, value in state.items() if name.startswith("encoder.")}
    load_whole(encoder, weights, "encoder of the configuration")
    towers = [module for module in encoder.modules() if isinstance(module, ImageTower)]
    if len(towers) != 1:
        raise ConfigurationError(
            f"{file}: its encoder {type(encoder).__name__} has {len(towers)} image towers, expected one; "
            "give a run of two towers, or of an image tower alone"
        )
    tower, how = towers[0].to(device).eval(), getattr(encoder, "pooling", "mean")

    def read(image: Any) -> Any:
        states, _ = tower.encode(image)
        return pool(states, image_stream(image, tower.front_end).present, how)

    sizes = set(_image_sizes(configuration.get("data")))
    return read, sizes.pop() if len(sizes) == 1 else None


def _image_sizes(node: Any) -> Iterator[int]:
    """Sizes that sources of the data name for their pictures, at any depth."""
    if isinstance(node, dict):
        own = node.get("image")
        size = (own.get("init_args") or own).get("size") if isinstance(own, dict) else None
        if isinstance(size, int):
            yield size
        for value in node.values():
            yield from _image_sizes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _image_sizes(value)
