"""What the data have given so far: shares of languages and sources, epochs of each language, padding."""

import re
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn

EVERY = 10
"""Reports come this much more rarely than losses."""

MANY = 4
"""Epochs from which on repeats are worth less and less (Muennighoff et al. 2023, arXiv:2305.16264, section 6)."""


class ReportData(Callback):
    """Logs what the data module's `report` says, warns once of each language that is gone through often, and prints the
    last report when training ends."""

    def __init__(self):
        self.told: set[str] = set()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Report, every now and then."""
        every: int = EVERY * trainer.log_every_n_steps  # type: ignore[attr-defined]  # set by its logger connector
        if trainer.global_step % every == 0 and trainer.global_step != trainer.max_steps:
            self.report(trainer)

    def report(self, trainer: Trainer) -> dict[str, float]:
        """Log the report as it stands."""
        report = getattr(trainer.datamodule, "report", dict)() if trainer.is_global_zero else {}  # type: ignore[attr-defined]
        if report and trainer.logger is not None:
            for logger in trainer.loggers:
                logger.log_metrics(report, trainer.global_step - 1)
        for key, epochs in report.items():
            if "/epochs/" in key and epochs > MANY and key not in self.told:
                self.told.add(key)
                source, language = name_of(key)
                rank_zero_warn(
                    f"source {source!r}: {language} has been gone through {epochs:.1f} times; beyond {MANY} epochs repeats "
                    "are worth less and less. A larger sampling.exponent, or sampling.max_epochs, gives its share to others"
                )
        return report

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print shares and epochs, most first."""
        report = self.report(trainer)
        shares = {key: value for key, value in report.items() if "/share/" in key}
        if not shares:
            return
        from rich.console import Console
        from rich.table import Table

        table = Table("source or mixture", "language or source", "share drawn", "epochs", title="What was drawn")
        for key, share in sorted(shares.items(), key=lambda pair: (name_of(pair[0])[0], -pair[1])):
            source, name = name_of(key)
            epochs = report.get(f"data/{source}/epochs/{name}")
            table.add_row(source, name, f"{100 * share:.2f} %", "" if epochs is None else f"{epochs:.2f}")
        Console(stderr=True).print(table)


def name_of(key: str) -> tuple[str, str]:
    """Source, or mixture, and what it is a share of: of `data/SOURCE/share/LANGUAGE`, whatever is in the names."""
    source, _, name = re.split("/(share|epochs)/", key.removeprefix("data/"), maxsplit=1)
    return source, name
