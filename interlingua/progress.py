"""What people see of a run: the size of what is trained, in a line, and a bar that counts optimiser steps."""

from collections.abc import Iterator
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.utilities import rank_zero_info
from torch import nn

OPENED = ("encoder", "objectives")
"""Parts of a module that are told by their own parts: towers, and objectives by name."""


BAR = 16
"""Characters of the bar."""
OTHERS = 10 + 1 + 17 + 11 + 5
"""Characters of what else is in its line: what is done, a slash, times, speed, and spaces between."""


def choose_metrics(metrics: dict[str, Any], room: int) -> dict[str, Any]:
    """The first metrics that fit in a number of characters, as they are shown: `mlm: 5.123`, and a space between."""
    chosen: dict[str, Any] = {}
    for name, value in metrics.items():
        room -= len(f"{name}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}") + bool(chosen)
        if room < 0:
            break
        chosen[name] = value
    return chosen


class StepBar(RichProgressBar):
    """Lightning's progress bar for training that is counted in steps, with the last loss of each objective.

    It counts all steps of the run, those before a resumption too, and is never wider than the terminal: losses that have no
    room are left out, and are in the logs.
    """

    @property
    def total_train_batches(self) -> int | float:
        """All steps of the run; Lightning's are those that were left when the bar was made."""
        return self.trainer.max_steps if self.trainer.max_steps > 0 else super().total_train_batches

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start where the run starts; Lightning starts the bar of a resumed run with its first step."""
        super().on_train_start(trainer, pl_module)
        if self.is_enabled and self.train_progress_bar_id is None:
            self._initialize_train_progress_bar_id()
        self._update(self.train_progress_bar_id, trainer.global_step)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the place: an epoch is nothing here."""
        super().on_train_epoch_start(trainer, pl_module)
        self._update(self.train_progress_bar_id, trainer.global_step)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count optimiser steps."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, trainer.global_step - 1)

    def _get_train_description(self, current_epoch: int) -> str:
        return "training"  # not "Epoch 0/-2"

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Come to rest before results are printed; a bar that still moves is printed behind them."""
        self._stop_progress()

    def configure_columns(self, trainer: Trainer) -> list:
        """Lightning's, with a shorter bar."""
        columns = super().configure_columns(trainer)
        for column in columns:
            if hasattr(column, "bar_width"):
                column.bar_width = BAR
        return columns

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        """What there is room for, under short names."""
        metrics = super().get_metrics(trainer, pl_module)
        named = {name.removeprefix("train/"): value for name, value in metrics.items() if name != "v_num"}
        left = OTHERS + BAR + 2 * len(str(self.total_train_batches))
        return choose_metrics(named, self._console.width - left if self.is_enabled else 0)


class TellSize(Callback):
    """Says in one line how many parameters are trained, and where they are, instead of Lightning's table."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """What is frozen is known only now."""
        rank_zero_info(f"{describe_size(pl_module)}; on {trainer.strategy.root_device}")


def describe_size(module: nn.Module) -> str:
    """Numbers of parameters: `1.7 M parameters: text 1.4 M, image 0.2 M, projections 33 k, mlm 25 k; 0.2 M of them frozen`.

    A parameter that several parts share is counted in the first; parts below a thousandth are not told.
    """
    seen: set[int] = set()
    sizes: dict[str, int] = {}
    for name, part in parts(module):
        own = [parameter for parameter in part.parameters() if id(parameter) not in seen]
        seen.update(map(id, own))
        sizes[name] = sizes.get(name, 0) + sum(parameter.numel() for parameter in own)
    every = list(module.parameters())
    total = sum(parameter.numel() for parameter in every)
    sizes["other"] = sizes.get("other", 0) + total - sum(sizes.values())
    told = ", ".join(f"{name} {readable(size)}" for name, size in sizes.items() if size * 1000 > total)
    frozen = sum(parameter.numel() for parameter in every if not parameter.requires_grad)
    return f"{readable(total)} parameters: {told}" + (f"; {readable(frozen)} of them frozen" if frozen else "")


def parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The parts of a module that people know by name."""
    for name, child in module.named_children():
        yield from child.named_children() if name in OPENED else [(name, child)]


def readable(number: int) -> str:
    """A number as people say it: `1.7 M`, `25 k`, `300`."""
    for unit, size in (("G", 10**9), ("M", 10**6)):
        if number >= size / 10:
            return f"{number / size:.1f} {unit}"
    return f"{number / 1000:.0f} k" if number >= 1000 else str(number)
