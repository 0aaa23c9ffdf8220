"""LightningCLI as we want it: checked before it builds, quiet, and its resolved configuration in every checkpoint."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

import yaml
from jsonargparse import ArgumentError, Namespace
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint, ProgressBar
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_info
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from .callbacks import KeepConfiguration, LogEnds, WatchObjectives, keep_last
from .checking import REPLACED, accepted, agree, build, check_class, check_keys, check_trainer, condense, import_class, link
from .checkpoints import CONFIGURATION, read_checkpoint, without_start
from .configuration import ConfigurationError, differences
from .ending import tell_end
from .interruption import Interruption
from .joints import check_joints
from .monitors import CheckMonitors
from .progress import StepBar, TellSize
from .reading_length import fit_length
from .refusals import find_refusal
from .report import ReportData

KEPT = ("seed_everything", "trainer", "model", "data")
"""What of a configuration belongs to the run; the rest (`ckpt_path`...) belongs to one call."""

NOT_OF_THE_RUN = ("model.initial", "model.tokenizer")
"""Files of a model that may have moved since a run started."""

COUNTED = ("vocabulary_size", "answers")
"""Numbers that only the built data knows; a model that takes them is given them, and they are saved with it."""

TRAINER_DEFAULTS = {
    "default_root_dir": "runs/default",
    "max_epochs": -1,  # training is counted in steps
    "check_val_every_n_epoch": None,
    "use_distributed_sampler": False,  # the loader gives every rank its own share
    "enable_model_summary": False,  # a line of our own
}

METHODS = {
    "fit": {"model", "train_dataloaders", "val_dataloaders", "datamodule"},
    **{name: {"model", "dataloaders", "datamodule"} for name in ("validate", "test", "predict")},
}
"""For each command, the arguments of the trainer's method that are no options."""


class ConfigurationShown(Exception):  # noqa: N818  # no error
    """Only the configuration was asked for, and it is printed."""


class Command(LightningCLI):
    """One command: parse, check, build and run, or print what would be run."""

    def __init__(self, command: str, configuration: dict[str, Any], print_config: bool = False, overwrite: bool = False):
        """
        Args:
            command: `fit`, `validate`, `test` or `predict`.
            configuration: Merged from files and command line.
            print_config: Print the resolved configuration and build nothing.
            overwrite: Training may replace the checkpoint of another run.

        Raises:
            ConfigurationError: Before anything is built, or by a class that refuses a value when it is built.
            ConfigurationShown: Instead of building, where `print_config`.
            Interrupted: By Ctrl-C.
        """
        self.command, self.asked, self.print_config, self.overwrite = command, configuration, print_config, overwrite
        super().__init__(
            LightningModule,
            LightningDataModule,
            save_config_callback=None,
            trainer_defaults=TRAINER_DEFAULTS,
            seed_everything_default=0,
            parser_kwargs={"exit_on_error": False},
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
        )

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]  # static there
        """Only the command that was called: three parsers less to build."""
        return {self.command: METHODS[self.command]}

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Check, then resolve with all defaults."""
        options = {action.dest.split(".")[0] for action in self._parser(self.command)._actions} - {"help", "config"}
        if "weights_only" in options:  # nothing but tensors and plain containers is read from a checkpoint
            self.asked.setdefault("weights_only", True)
        check(self.command, self.asked, sorted(options))
        try:
            self.config = parser.parse_object({"subcommand": self.command, self.command: self.asked})
        except ArgumentError as error:
            raise ConfigurationError(condense(error)) from None
        if self.print_config:
            print(yaml.safe_dump(self.resolved(), sort_keys=False, allow_unicode=True), end="")
            raise ConfigurationShown
        last = self.last_checkpoint()
        if last is not None and last.exists() and not (self.overwrite or self.config[self.command].get("ckpt_path")):
            raise ConfigurationError(
                f"{last} is another run's, and would be replaced; go on with it (--ckpt_path {last}), train elsewhere "
                "(--trainer.default_root_dir FOLDER), or give --overwrite"
            )

    def last_checkpoint(self) -> Path | None:
        """Where training is saved; None where it is not."""
        options = self.config[self.command].trainer
        if self.command != "fit" or options.fast_dev_run or options.enable_checkpointing is False:
            return None
        return Path(options.default_root_dir, "checkpoints", "last.ckpt")

    def _parse_ckpt_path(self) -> None:
        """Lightning would lay the checkpoint's hyper-parameters over what was asked for; ours go below it."""

    def resolved(self) -> dict[str, Any]:
        """The run's configuration with all defaults, in plain containers, strings and numbers."""
        parser = self._parser(self.command)
        everything = yaml.safe_load(parser.dump(self.config[self.command], skip_none=False))
        kept = {key: everything[key] for key in KEPT if everything.get(key) is not None}
        usual = parser.get_defaults().trainer
        kept["trainer"] = {
            key: value
            for key, value in kept["trainer"].items()
            if key not in REPLACED and (value is not None or usual[key] is not None)
        }
        return kept

    def instantiate_classes(self) -> None:
        """Build the data first, for the numbers that only it knows, then the model and the trainer."""
        parser, config, self.kept = self._parser(self.command), self.config[self.command], self.resolved()
        with one_line("data"):
            self.datamodule = build(LightningDataModule, self.kept["data"]) if "data" in self.kept else None
        tell_numbers(self.datamodule, self.kept["model"])
        node = self.kept["model"] if config.ckpt_path is None else without_start(self.kept["model"])
        with one_line("model"):
            self.model = build(LightningModule, node)
        check_joints(self.command, self.model, self.datamodule)
        resumes = self.command == "fit" and config.ckpt_path is not None
        self.changes = tell_changes(config.ckpt_path, self.kept) if resumes else ""
        with one_line("trainer"):
            rest = Namespace(**{key: value for key, value in vars(config).items() if key not in ("model", "data")})
            self.config_init = Namespace(**{self.command: parser.instantiate_classes(rest)})
            self.trainer = self.instantiate_trainer()

    def _run_subcommand(self, subcommand: str) -> None:
        with told_in_a_line(self.changes), self.interruption.watch():
            super()._run_subcommand(subcommand)
        if subcommand == "fit" and self.trainer.is_global_zero:
            root = self.trainer.default_root_dir
            logs = next((folder for one in self.trainer.loggers if (folder := getattr(one, "log_dir", None))), None)
            last = self.last_checkpoint()
            for line in tell_end(self.trainer.global_step, last, root, logs, self.model, self.kept.get("data")):
                print(line)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Add our loggers, checkpoints and the saved configuration to what the configuration asks for."""
        options = self.config_init[self.command].trainer
        root = Path(options.default_root_dir)
        if options.logger in (None, True):
            table = CSVLogger(root, name="logs")
            kwargs["logger"] = [table, TensorBoardLogger(root, name="logs", version=table.version)]
        if self.command != "fit":
            kwargs["enable_checkpointing"] = False
        callbacks = options.callbacks if isinstance(options.callbacks, list) else [options.callbacks or []]
        callbacks = [one for one in callbacks if one and (self.command == "fit" or not isinstance(one, Checkpoint))]
        last = self.last_checkpoint()
        if last is not None:
            for one in callbacks:
                if isinstance(one, ModelCheckpoint) and one.dirpath is None:
                    one.dirpath = str(last.parent.absolute())  # beside the last one; Lightning's own way is below the logs
        if self.command == "fit":
            callbacks += [CheckMonitors(), LogEnds(), WatchObjectives(), ReportData(), TellSize()]
            if not options.fast_dev_run:
                callbacks.append(KeepConfiguration(self.kept))
        if last is not None and not any(isinstance(callback, Checkpoint) for callback in callbacks):
            callbacks += keep_last(last)
        if options.enable_progress_bar is not False and not any(isinstance(c, ProgressBar) for c in callbacks):
            callbacks.append(StepBar())
        self.interruption = Interruption(last)
        return super().instantiate_trainer(callbacks=[*callbacks, self.interruption], **kwargs)


def check(command: str, configuration: dict[str, Any], options: list[str]) -> None:
    """Refuse what nothing reads, before anything is built; write links between data and model into it."""
    check_method(command, configuration.get("model"))  # first: another command has other options
    check_keys("", configuration, options)
    for part in ("trainer", "model", "data"):
        node = configuration.get(part)
        if node is not None and not isinstance(node, dict):
            raise ConfigurationError(f"{part}: found {node!r}, expected a mapping")
    seed = configuration.get("seed_everything") or 0
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ConfigurationError(f"seed_everything: found {seed!r}, expected an integer from 0 to {2**32 - 1}")
    check_trainer(Trainer, configuration.get("trainer") or {})
    if not configuration.get("model"):
        raise ConfigurationError("model: nothing sets it; give --config FILE, --model CLASS_PATH or --ckpt_path FILE")
    for part in ("model", "data"):
        node = configuration.get(part)
        if node and "class_path" not in node:
            raise ConfigurationError(f"{part}.class_path: nothing sets it (found only {', '.join(node)})")
        if node:
            import_class(f"{part}.class_path", node["class_path"])
    link(configuration)
    told = None if command == "fit" else fit_length(configuration)
    if told is not None:
        rank_zero_info(told)
    for part in ("model", "data"):
        if configuration.get(part):
            check_class(part, configuration[part])
    trainer = configuration.get("trainer") or {}
    if command == "fit" and not any(trainer.get(key) for key in ("max_steps", "max_time", "max_epochs", "fast_dev_run")):
        raise ConfigurationError("trainer.max_steps: nothing sets it; training is counted in optimiser steps and would not end")


def tell_changes(path: str, kept: dict[str, Any]) -> str:
    """Say in a line which options of the model are not those that a resumed run was trained with so far; gives them, too."""
    before = read_checkpoint(path).get(CONFIGURATION, {}) if Path(path).is_file() else {}
    if "model" not in before:
        return ""
    found = [one for one in differences(before["model"], kept["model"], "model") if one[0] not in NOT_OF_THE_RUN]
    told = ", ".join(f"{address} {new!r} (was {old!r})" for address, old, new in found)
    if told:
        rank_zero_info(f"the run goes on with other options than {path} was trained with: {told}")
    return told


STEPS = {
    "fit": ("training_step",),
    "validate": ("validation_step",),
    "test": ("test_step",),
    "predict": ("predict_step", "forward"),
}
"""For each command, what a model must have one of."""


def check_method(command: str, node: Any) -> None:
    """Refuse a command that a model has nothing to run for; what is no model is refused elsewhere."""
    path = node.get("class_path") if isinstance(node, dict) else None
    if not isinstance(path, str):
        return
    found = import_class("model.class_path", path)
    there = [
        name
        for name, steps in STEPS.items()
        if any(getattr(found, step, None) is not getattr(LightningModule, step) for step in steps)
    ]
    if command not in there and inspect.isclass(found) and issubclass(found, LightningModule):
        raise ConfigurationError(
            f"model.class_path: {path} has no {STEPS[command][0]}, so `interlingua {command}` has nothing to run; it is for "
            f"{' and '.join(there) or 'none of the commands'} (configs/evaluate has models to test with)"
        )


def tell_numbers(datamodule: LightningDataModule | None, model: dict[str, Any]) -> None:
    """Write the numbers that the data knows into the model's arguments, in place.

    Raises:
        ConfigurationError: The configuration, or the checkpoint it comes from, says another number; names both.
    """
    takes = accepted(import_class("model.class_path", model["class_path"]))
    for name in COUNTED:
        if name in takes and name in dir(datamodule):
            agree("model", model["init_args"], name, getattr(datamodule, name))


@contextmanager
def one_line(part: str) -> Iterator[None]:
    """Values that a class refuses when it is built are told like those that the parser refuses."""
    try:
        yield
    except (ValueError, OSError, MisconfigurationException, *LIGHTNINGS) as error:
        if isinstance(error, LIGHTNINGS) and part != "trainer":
            raise  # a mistake in the class
        reason = condense(error) if "Errors:" in str(error) else " ".join(str(error).split())
        raise ConfigurationError(f"{part}: {reason}") from error


LIGHTNINGS = (TypeError, ModuleNotFoundError)
"""What Lightning raises, too, where the trainer is given devices or an accelerator that are not there."""


@contextmanager
def told_in_a_line(changes: str = "") -> Iterator[None]:
    """What is refused on purpose while the command runs (data, shapes, numbers that are not finite), and what the system
    refuses (a full disk), is told like a mistake in the configuration; anything else is a fault of the code, with its trace.

    Args:
        changes: Options of the model that are not those of the checkpoint; one of them is to blame where weights do not fit.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, MisconfigurationException) as error:
        raise ConfigurationError(find_refusal(error) or " ".join(str(error).split())) from error
    except Exception as error:
        reason = find_refusal(error)
        if reason is None:
            raise
        if reason.startswith("Error(s) in loading state_dict"):
            blamed = f" (now {changes})" if changes else ""
            reason = (
                f"the checkpoint is of another model{blamed}; resume with the run's own configuration: {shorten(reason, 400)}"
            )
        raise ConfigurationError(reason) from error
