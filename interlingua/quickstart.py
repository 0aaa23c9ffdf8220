"""The quick start: four commands in a row, each of which can be given by itself."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .datamodules.arguments import OneLineParser

LANGUAGES = "en,de,fr,es,ru,ar,hi,zh,ja,ko,tr,sw"
DATA = Path("runs", "quickstart")
"""Where shards and tokenizer are, for the ablation and for other seeds too."""
WITHOUT = "quickstart_no_crosslingual"


def main(argv: Sequence[str]) -> int:
    """Write shards, train a tokenizer, pretrain, and find pictures by names in twelve languages."""
    parser = OneLineParser(prog="interlingua quickstart", description=main.__doc__)
    parser.add_argument("--without-crosslingual", action="store_true", help="the ablation: no contrast between translations")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order, marks and dropout (default: 0)")
    arguments = parser.parse_args(argv)
    folder = DATA.with_name(WITHOUT) if arguments.without_crosslingual else DATA
    if arguments.seed:
        folder = folder.with_name(f"{folder.name}_seed{arguments.seed}")
    start = time.monotonic()
    for command in commands(folder, arguments.without_crosslingual, arguments.seed):
        print(f"\n$ interlingua {shlex.join(command)}", flush=True)
        status = run(command)
        if status:
            return status
    print(f"\n{folder / 'results.html'} shows it, with pictures; {time.monotonic() - start:.0f} seconds in all")
    return 0


def commands(folder: Path, without_crosslingual: bool, seed: int) -> list[list[str]]:
    """What is still to be done, as arguments of `interlingua`."""
    todo = []
    if not (DATA / "shards" / "about.json").exists():
        todo.append(["shards", "write", "quickstart", str(DATA / "shards"), "--force"])
    if not (DATA / "tokenizer.json").exists():
        names, model = DATA / "shards" / "train" / "names", DATA / "tokenizer.model"
        todo.append(["tokenizer", "train", "--shards", str(names), "--output", str(model), "--languages", LANGUAGES])
    fit = ["fit", "--overwrite", "--config", "configs/pretrain/quickstart.yaml"]  # as often as one likes
    if without_crosslingual:
        fit += ["--config", f"configs/pretrain/{WITHOUT}.yaml"]
    fit += ["--trainer.default_root_dir", str(folder)]
    if seed:
        fit += ["--seed_everything", str(seed), "--model.seed", str(seed), "--data.seed", str(seed)]
    test = ["test", "--config", "configs/evaluate/quickstart.yaml", "--trainer.default_root_dir", str(folder)]
    test += ["--model.checkpoint", str(folder / "checkpoints" / "last.ckpt"), "--model.output", str(folder)]
    ablation = DATA.with_name(WITHOUT) / "results.json"
    if folder == DATA and ablation.exists():
        test += ["--model.ablation", str(ablation), "--model.ablation_name", "without the cross-lingual contrast"]
    return [*todo, fit, test]


def run(command: Sequence[str]) -> int:
    from .__main__ import main as interlingua

    sys.stdout.flush()
    return interlingua(command)
