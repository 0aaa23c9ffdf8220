"""What Lightning and jsonargparse say, and nobody can act on, is left out."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

HARMLESS = (
    ".*LeafSpec.*",  # Lightning's own use of torch's internals
    ".*does not have many workers.*",  # a choice of the configuration, not an oversight
    ".*deprecated in v4.*removed in v5.*",  # jsonargparse, of Lightning's calls; we require less than 5
    "Checkpoint directory .* exists and is not empty.*",  # so it is whenever a run is resumed
    "The dirpath has changed from.*",  # a resumed run may write elsewhere
    "You defined a `validation_step` but have no.*",  # a run may have nothing to validate on
    "It is recommended to use .*sync_dist=True.*",  # what is logged is summed over ranks before
    "Using ModelCheckpoint with manual optimization.*",  # the state after the step is the one to resume from
)

HARMLESS_WHEN_MEASURING = ("Be aware that when using `ckpt_path`, callbacks used to create.*",)  # nothing is trained

USUAL = {
    "lightning.pytorch.utilities.rank_zero": (
        "Tip:",
        "GPU available",  # an unused one is warned of; the size of the model tells the device
        "TPU available",
        "Restoring states from",  # that they were is told, too
        "was configured so",  # as it was
    ),
    "lightning.fabric.utilities.seed": ("Seed set to",),  # it is in the configuration
}
"""What is logged in every run, by logger."""


@contextmanager
def said_once(*names: str) -> Iterator[None]:
    """What these loggers say again in the same words is left out.

    Args:
        names: Of loggers.
    """
    said: set[tuple[str, str]] = set()

    def is_new(record: logging.LogRecord) -> bool:
        key = record.name, record.getMessage()
        new = key not in said
        said.add(key)
        return new

    for name in names:
        logging.getLogger(name).addFilter(is_new)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).removeFilter(is_new)


@contextmanager
def quiet(command: str) -> Iterator[None]:
    """Leave out warnings that no user can act on, advertisements, and what every run says alike."""

    def wanted(record: logging.LogRecord) -> bool:
        return not any(words in record.getMessage() for words in USUAL[record.name])

    for name in USUAL:
        logging.getLogger(name).addFilter(wanted)
    try:
        with warnings.catch_warnings():
            for message in HARMLESS if command == "fit" else HARMLESS + HARMLESS_WHEN_MEASURING:
                warnings.filterwarnings("ignore", message)
            yield
    finally:
        for name in USUAL:
            logging.getLogger(name).removeFilter(wanted)
