"""fit, validate, test, predict: from arguments to a run. Light until there is something to check or to run."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .configuration import ConfigurationError, Request, merge, read_arguments

HELP = """\
usage: interlingua {command} [--config FILE]... [--ADDRESS VALUE]... [--print_config]

  --config FILE            a configuration; several are merged in order: mappings key by key, a changed class_path
                           drops its init_args, null removes, everything else is replaced. A name such as
                           configs/pretrain/NAME.yaml that is not in this folder is looked up in the installation
  --ADDRESS VALUE          change one value: --trainer.max_steps 1000, --model.objectives.mlm.rate 0.4
  --ckpt_path FILE         {ckpt_path}{overwrite}
  --print_config           print the resolved configuration, build nothing
  --help CLASS_PATH        what a class can be told, such as --help lightning.pytorch.Trainer

  seed_everything          seed of everything random (0)
  model, data              class_path, and init_args: what --help CLASS_PATH lists
  trainer                  Lightning's Trainer; most used:
    max_steps              optimiser steps
    val_check_interval     optimiser steps between two validations
    default_root_dir       where logs, checkpoints and config.yaml go (runs/default)
    precision              32-true, bf16-mixed, ...
    devices, strategy      2 and ddp: two processes
    callbacks, logger      class_path and init_args each
"""

OVERWRITE = """
  --overwrite              train anew in the folder of another run, and replace its checkpoint"""

CKPT_PATH = {True: "resume this run", False: "weights to use; without --config, with the checkpoint's own configuration"}


def fit(argv: Sequence[str]) -> int:
    """Train."""
    return run("fit", argv)


def validate(argv: Sequence[str]) -> int:
    """Measure on the validation data."""
    return run("validate", argv)


def test(argv: Sequence[str]) -> int:
    """Measure on the test data."""
    return run("test", argv)


def predict(argv: Sequence[str]) -> int:
    """Run the model's predictions over the data."""
    return run("predict", argv)


def run(command: str, argv: Sequence[str]) -> int:
    """Read the arguments and run the command.

    Args:
        command: `fit`, `validate`, `test` or `predict`.
        argv: Arguments after the command.

    Returns:
        Exit status: 2 where the arguments or the configuration are wrong, 130 where interrupted.
    """
    overwrite = command == "fit" and "--overwrite" in argv
    try:
        if argv and argv[0] in ("--help", "-h"):
            return show_help(command, argv[1:])
        return start(command, read_arguments([word for word in argv if not (overwrite and word == "--overwrite")]), overwrite)
    except ConfigurationError as error:
        print(f"interlingua {command}: {error}", file=sys.stderr)
        return 2


def start(command: str, request: Request, overwrite: bool = False) -> int:
    """Check, build and run.

    Args:
        command: `fit`, `validate`, `test` or `predict`.
        request: What the command line asks for.
        overwrite: Training may replace the checkpoint of another run.

    Returns:
        Exit status: 130 where interrupted.

    Raises:
        ConfigurationError: Before anything is built.
    """
    configuration = with_kept_encoder(under_checkpoint(command, request.configuration))
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # classes of one's own project
    from .interruption import Interrupted  # Lightning takes seconds to import
    from .quiet import quiet
    from .trainer import Command, ConfigurationShown

    try:
        with quiet(command), suppress(ConfigurationShown):
            Command(command, configuration, request.print_config, overwrite)
    except Interrupted as interrupted:
        return tell_interrupted(command, interrupted)
    return 0


def tell_interrupted(command: str, interrupted: BaseException) -> int:
    """Say on one rank what was saved; the status of the others is 0, since Lightning kills the first where one fails."""
    from lightning.pytorch.utilities import rank_zero_only

    if rank_zero_only.rank != 0:  # type: ignore[attr-defined]  # set by Lightning
        return 0
    print(f"interlingua {command}: {str(interrupted) or 'interrupted'}", file=sys.stderr)
    return 130


def under_checkpoint(command: str, configuration: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, laid over the configuration of the checkpoint that is measured.

    A resumed run says everything itself. A measured checkpoint brings its own model, so that numbers that were linked
    from its training data hold; of the trainer it brings nothing but its folder.
    """
    path = configuration.get("ckpt_path")
    if path is None:
        return configuration
    if not os.path.exists(path):
        raise ConfigurationError(f"--ckpt_path {path}: no such file in {os.getcwd()}")
    from .checkpoints import CONFIGURATION, read_checkpoint

    if os.path.isdir(path):  # sharded checkpoints are folders
        if not os.path.exists(os.path.join(path, ".metadata")):
            raise ConfigurationError(f"--ckpt_path {path}: found a folder, expected a .ckpt file in it")
        return configuration
    if command == "fit":
        check_resumable(path, read_checkpoint(path), configuration)
        return configuration
    kept = read_checkpoint(path).get(CONFIGURATION, {})
    base = {key: kept[key] for key in ("seed_everything", "model", "data") if key in kept}
    if "default_root_dir" in kept.get("trainer", {}):
        base["trainer"] = {"default_root_dir": kept["trainer"]["default_root_dir"]}
    return merge(base, configuration)


def check_resumable(path: str, checkpoint: dict[str, Any], configuration: dict[str, Any]) -> None:
    """Refuse to resume what is no run, and say so where nothing is left to train.

    Raises:
        ConfigurationError: The checkpoint lacks what a run is resumed from.
    """
    lacking = [
        name for name in ("state_dict", "optimizer_states", "loops", "pytorch-lightning_version") if name not in checkpoint
    ]
    if lacking:
        raise ConfigurationError(
            f"--ckpt_path {path}: no run can be resumed from it, as it lacks {', '.join(lacking)}; give the .ckpt that "
            "`interlingua fit` wrote"
        )
    done, steps = checkpoint.get("global_step"), (configuration.get("trainer") or {}).get("max_steps")
    if isinstance(done, int) and isinstance(steps, int) and 0 < steps <= done:
        print(
            f"interlingua fit: {path} has trained {done} steps, and trainer.max_steps is {steps}: nothing is left to train; "
            "raise --trainer.max_steps to go on",
            file=sys.stderr,
        )


def with_kept_encoder(configuration: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, with the encoder of the checkpoint that `model.checkpoint` names, where none is given.

    A task that measures or fine-tunes a pretrained encoder need not say once more how it is built.

    Raises:
        ConfigurationError: There is no such checkpoint, or it holds no configuration.
    """
    own = (configuration.get("model") or {}).get("init_args") or {}
    path = own.get("checkpoint")
    if "encoder" in own or not isinstance(path, str):
        return configuration
    if not os.path.isfile(path):
        raise ConfigurationError(f"model.checkpoint: {path} does not exist; train it with `interlingua fit`, or name another")
    from .checkpoints import read_configuration

    kept = read_configuration(path).get("model", {}).get("init_args", {})
    encoder = {"encoder": kept["encoder"]} if "encoder" in kept else {}
    return merge({"model": {"class_path": configuration["model"].get("class_path"), "init_args": encoder}}, configuration)


def show_help(command: str, classes: Sequence[str]) -> int:
    """Print what the command takes, or what one class can be told."""
    if not classes:
        fit = command == "fit"
        print(HELP.format(command=command, ckpt_path=CKPT_PATH[fit], overwrite=OVERWRITE if fit else ""), end="")
        return 0
    from .class_help import describe_class

    print(describe_class(classes[0]), end="")
    return 0
