"""`interlingua inspect`: what a fused encoder looks at, and what its picture and its text are worth to it."""

import argparse
import json
import math
from collections.abc import Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from .configuration import ConfigurationError
from .datamodules.arguments import OneLineParser, check_folder, run_told

PROGRAM = "interlingua inspect"


def main(argv: Sequence[str]) -> int:
    """Draw attention over pictures and measure the modality ablation of a run.

    Args:
        argv: What stands behind `interlingua inspect`.

    Returns:
        Exit status: 0 well, 2 wrong use or wrong input (one line on standard error says what).
    """
    options = _parser().parse_args(argv)
    return run_told(PROGRAM, lambda: _run(options), ConfigurationError)


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=PROGRAM,
        description="Of a run of a fused encoder of text and picture: over the pictures of some validation samples, what\n"
        "each word of the caption attends to; and losses and accuracies of hidden words without the picture and with\n"
        "another's, and of hidden regions or patches without the text. Writes inspect.json, a PNG a sample, and page.html.",
        epilog=f"example:\n  {PROGRAM} runs/mine/checkpoints/last.ckpt --output runs/mine/inspect --samples 0 1 2",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", type=Path, metavar="CKPT", help="checkpoint that `interlingua fit` wrote")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="where results go")
    parser.add_argument("--source", metavar="NAME", help="validation source (default: the first with text and picture)")
    parser.add_argument("--language", metavar="CODE", help="language of the captions (default: the first that the source has)")
    parser.add_argument(
        "--samples", type=int, nargs="*", default=[0, 1, 2, 3], metavar="N", help="which to draw, from 0 (default: 0 1 2 3)"
    )
    parser.add_argument("--layer", type=int, metavar="N", help="which to draw, from 1 (default: the mean of all)")
    parser.add_argument("--batches", type=int, default=50, metavar="N", help="of each language, for the ablation (default: 50)")
    parser.add_argument(
        "--data", metavar="FILE.yaml", help="a configuration whose `data` is merged over that of the run: files elsewhere, say"
    )
    return parser


class Panel(NamedTuple):
    """One sample, drawn."""

    file: Path
    caption: str


def _run(options: argparse.Namespace) -> int:
    from .run_plans import read_override
    from .trainer import told_in_a_line

    if options.batches < 1 or any(number < 0 for number in options.samples):
        raise ConfigurationError(f"--batches {options.batches}, --samples {options.samples}: expected 1 or more, and 0 or more")
    override = read_override(options.data)
    check_folder(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    with told_in_a_line():
        module, readers = _open(options, override)
    reader, panels = _choose(readers, options), []
    for number in options.samples:
        panels.append(_draw(module, reader, number, options))
    from .tasks.ablation import measure_ablation

    batches = (batch for one in readers for batch in _read(one, options.batches))
    ablations = measure_ablation(module, batches)
    rows = [one._asdict() | {"swapped": None if math.isnan(one.swapped) else one.swapped} for one in ablations]
    record = {"checkpoint": str(options.checkpoint), "source": reader.name, "ablation": rows}
    (options.output / "inspect.json").write_text(json.dumps(record, indent=1, ensure_ascii=False), encoding="utf-8")
    (options.output / "page.html").write_text(_write_page(options, ablations, panels), encoding="utf-8")
    print(_format(ablations))
    print(f"\n{options.output / 'page.html'}, {', '.join(['inspect.json', *(one.file.name for one in panels)])}")
    return 0


def _open(options: argparse.Namespace, override: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The module, and the readers of its validation data."""
    from lightning.pytorch import LightningDataModule

    from .checking import build, check_class
    from .checkpoints import load_model, read_configuration
    from .configuration import merge
    from .models.fused import Fused

    configuration = read_configuration(options.checkpoint)
    module = load_model(options.checkpoint)
    encoder = getattr(module, "encoder", None)
    if not isinstance(encoder, Fused):
        raise ConfigurationError(
            f"{options.checkpoint}: its encoder is {type(encoder).__name__}; expected Fused, in which words attend to pictures"
        )
    node = merge({"data": configuration["data"]}, override)["data"]
    check_class("data", node)
    data = build(LightningDataModule, node)
    if not getattr(data, "validation", None):
        raise ConfigurationError(f"{options.checkpoint}: its data have no `validation`; give one in --data FILE.yaml")
    data.setup("validate")
    return module, data.validation_readers


def _choose(readers: Sequence[Any], options: argparse.Namespace) -> Any:
    """The reader of the source and language that are drawn."""
    both = [one for one in readers if one.source.text is not None and (one.source.image or one.source.regions)]
    fitting = [one for one in both if options.source in (None, one.name)]
    if not fitting:
        found = ", ".join(sorted({one.name for one in both})) or "none"
        raise ConfigurationError(f"--source {options.source or '(any)'}: validation sources with text and picture are {found}")
    named = {one.source.text.languages[0] if one.source.text.languages else "": one for one in reversed(fitting)}
    if options.language is not None and options.language not in named:
        raise ConfigurationError(f"--language {options.language}: {fitting[0].name} has {', '.join(sorted(named))}")
    return fitting[0] if options.language is None else named[options.language]


def _read(reader: Any, count: int) -> Any:
    """Some batches of a reader."""
    return (reader.read(*part).batch for part in islice(reader.once(), count))


def _draw(module: Any, reader: Any, number: int, options: argparse.Namespace) -> Panel:
    import torch

    from .attention_picture import draw_attention
    from .models.attention_maps import attention_to_picture

    if number >= len(reader):
        raise ConfigurationError(f"--samples {number}: {reader.name} has {len(reader)} samples, numbered from 0")
    sample = torch.as_tensor(reader.samples[number : number + 1])
    reading = reader.read(reader.rows(sample, torch.zeros_like(sample)))
    where = "/".join(reader.shards.find(int(sample[0])))
    if reading.faults:
        raise ConfigurationError(f"--samples {number}: {where} cannot be read: {reading.faults[0].kind}")
    batch = reading.batch
    layers = attention_to_picture(module.encoder, batch)
    if options.layer is not None and options.layer not in layers:
        raise ConfigurationError(
            f"--layer {options.layer}: text attends to the picture in layers {', '.join(map(str, layers))}"
        )
    chosen = layers[options.layer] if options.layer is not None else torch.stack([one.mean(0) for one in layers.values()])
    words, weights = _by_word(module.tokenizer or reader.tokenizer, batch, chosen.mean(0))
    picture = module.encoder.picture
    weights = weights[:, picture.before : weights.shape[1] - picture.after]
    boxes = _boxes(picture, batch)
    own = reader.shards.read(int(sample[0]), image=True).image
    pixels = _pixels(batch, own)
    caption = " ".join(words)
    file = options.output / f"attention_{number}.png"
    layer = "all layers" if options.layer is None else f"layer {options.layer}"
    draw_attention(
        file, f"{where}: {layer}, all heads; share of a word's attention that is on the picture", words, weights, pixels, boxes
    )
    return Panel(file, caption)


def _by_word(tokenizer: Any, batch: Any, weights: Any) -> tuple[list[str], Any]:
    """Words of the caption, and the mean attention of their pieces; control tokens are left out."""
    import torch

    present = batch.text.present[0]
    ids, numbers = batch.text.tokens[0][present], batch.text.word[0][present]
    words, rows = [], []
    for number in numbers[numbers >= 0].unique().tolist():
        words.append(tokenizer.decode(ids[numbers == number].tolist()).strip() or "?")
        rows.append(weights[numbers == number].mean(0))
    return words, torch.stack(rows) if rows else weights[:0]


def _boxes(picture: Any, batch: Any) -> Any:
    """Where places of the picture are, as fractions of it."""
    import torch

    if picture.stream == "regions":
        return batch.regions.boxes[0][batch.regions.present[0]]
    height, width = batch.image.pixels.shape[2:]
    count = picture.front_end.count(height, width)
    grid = getattr(picture.front_end, "grid", None)
    rows, columns = grid(height, width) if grid is not None else (math.isqrt(count), count // math.isqrt(count))
    top, left = torch.meshgrid(torch.arange(rows) / rows, torch.arange(columns) / columns, indexing="ij")
    return torch.stack([left, top, left + 1 / columns, top + 1 / rows], 2).flatten(0, 1)


def _pixels(batch: Any, stored: bytes | None) -> Any:
    """The picture as it was read, or as it is stored where regions alone were."""
    from .modalities.image import decode_image

    if batch.image is not None:
        return batch.image.pixels[0]
    return None if stored is None else decode_image(stored)


def _format(ablations: Sequence[Any]) -> str:
    """A table for the terminal."""
    if not ablations:
        return "no objective hides words or parts of pictures: there is nothing to take away"
    lines = [f"{'objective':<28}{'figure':<10}{'taken':<9}{'whole':>8}{'without':>9}{'of another':>12}{'items':>9}"]
    for one in ablations:
        name, figures = f"{one.source}/{one.objective}", f"{one.whole:>8.3f}{one.without:>9.3f}{one.swapped:>12.3f}"
        lines.append(f"{name:<28}{one.figure:<10}{one.taken:<9}{figures}{one.count:>9,}")
    return "\n".join(lines)


def _write_page(options: argparse.Namespace, ablations: Sequence[Any], panels: Sequence[Panel]) -> str:
    from .tasks.page_parts import fill_page

    rows = "".join(
        f"<tr><th>{escape(one.source)}: {escape(one.objective)}</th><td>{escape(one.figure)}</td>"
        f"<td>{one.taken}</td><td>{one.whole:.3f}</td>"
        f"<td>{one.without:.3f} <small>{one.without - one.whole:+.3f}</small></td>"
        f"<td>{one.swapped:.3f} <small>{one.swapped - one.whole:+.3f}</small></td><td>{one.count:,}</td></tr>"
        for one in ablations
    )
    pictures = "".join(
        f'<figure class="card chart"><img src="{escape(one.file.name)}" alt="What each word attends to" style="max-width:100%">'
        f"<figcaption>{escape(one.caption)}</figcaption></figure>"
        for one in panels
    )
    return fill_page("inspect.html", title=f"What {escape(options.checkpoint.name)} looks at", rows=rows, pictures=pictures)
