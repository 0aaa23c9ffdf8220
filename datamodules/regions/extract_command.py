"""`interlingua regions extract`: regions that are found in the pictures of shards."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..shards.parsing import add_command
from .add_command import PROGRAM, add_choice, add_shards, check_choice, report

if TYPE_CHECKING:
    from .maker import Maker

ReadTower = Callable[[str, str], tuple[Callable[[Any], Any], int | None]]
"""Reads the image tower of a run: from a checkpoint and a device to a function of pictures, and their size if it is known."""
SIZE = 224


def add_extract(commands: Any, read_tower: ReadTower) -> None:
    """The command `extract`."""
    parser = add_command(
        commands,
        "extract",
        lambda arguments: _extract(arguments, read_tower),
        "Copy shards and put regions beside the pictures: cells of a grid with features of a backbone or of a run of ours, or "
        "what a detector finds.",
        f"examples:\n  {PROGRAM} extract --backbone resnet50 --checkpoint resnet50.safetensors --grid 6 6 \\\n"
        "      --shards data/train --output data/train-regions --clusters 256\n"
        f"  {PROGRAM} extract --detector fasterrcnn_resnet50_fpn --checkpoint fasterrcnn.pth \\\n"
        "      --shards data/train --output data/train-regions\n"
        f"  {PROGRAM} extract --from-run runs/clip/checkpoints/last.ckpt --grid 1 1 2 2 3 3 \\\n"
        "      --shards data/val --output data/val-regions --clusters-from data/train-regions/clusters.npz",
    )
    maker = parser.add_mutually_exclusive_group(required=True)
    maker.add_argument("--backbone", metavar="NAME", help="of timm: cells of its feature map")
    maker.add_argument("--detector", metavar="NAME", help="of torchvision, with a box head: its boxes, classes, features")
    maker.add_argument("--from-run", metavar="FILE.ckpt", help="image tower of one of our runs: reads each cell as a picture")
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--checkpoint", type=Path, metavar="FILE", help="weights of backbone or detector, by their own names")
    weights.add_argument("--random", action="store_true", help="random weights of backbone or detector, for trials")
    parser.add_argument(
        "--grid",
        type=int,
        nargs="+",
        default=[6, 6],
        metavar="N",
        help="rows and columns of one grid or several (default: 6 6)",
    )
    parser.add_argument(
        "--size",
        type=int,
        metavar="PIXELS",
        help=f"height and width that pictures or cells are read in (default: {SIZE}, or the run's own); of a detector the "
        "shorter side (default: its own)",
    )
    add_choice(parser, threshold=0.2, least=10, most=36)
    parser.add_argument(
        "--overlap", type=float, default=0.5, metavar="P", help="of boxes of one thing, for a detector (default: %(default)g)"
    )
    classes = parser.add_mutually_exclusive_group()
    classes.add_argument(
        "--clusters",
        type=int,
        default=0,
        metavar="K",
        help="without a detector: learn K classes from the features",
    )
    classes.add_argument("--clusters-from", type=Path, metavar="FILE", help="clusters.npz of the training data, for other data")
    parser.add_argument("--seed", type=int, default=0, help="of clusters and random weights (default: %(default)s)")
    parser.add_argument("--device", help="where features are made (default: cuda if there is one, else cpu)")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="pictures at once (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="that decode pictures (default: %(default)s)")
    add_shards(parser)


def _extract(arguments: argparse.Namespace, read_tower: ReadTower) -> int:
    from ..shards.map_file import read_map
    from .clusters import read_clusters
    from .extracting import Clustering, Pace, extract_regions

    _check(arguments)
    known = read_clusters(arguments.clusters_from) if arguments.clusters_from else None
    done = extract_regions(
        _build(arguments, read_tower),
        arguments.shards,
        arguments.output,
        Clustering(arguments.clusters, arguments.seed, known),
        Pace(arguments.batch_size, arguments.threads),
        read_map(arguments.map),
        arguments.replace,
        arguments.force,
    )
    report(done.samples, done.counts, done.examples, arguments.output)
    print(f"{done.pictures:,} pictures read in {done.seconds:.1f} s, {done.pictures / max(done.seconds, 1e-9):.1f} a second")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what contradicts itself, before anything is built.

    Raises:
        ValueError: Names the option.
    """
    check_choice(arguments)
    grid = arguments.grid
    if len(grid) % 2 or min(grid) < 1:
        raise ValueError(
            f"--grid {' '.join(map(str, grid))}: expected rows and columns of each grid, such as 6 6 or 1 1 2 2 3 3"
        )
    for name, least in (("size", 1), ("batch_size", 1), ("threads", 1)):
        if (found := getattr(arguments, name)) is not None and found < least:
            raise ValueError(f"--{name.replace('_', '-')}: found {found}, expected {least} or more")
    if arguments.clusters and arguments.clusters < 2:
        raise ValueError(f"--clusters: found {arguments.clusters}, expected 2 or more")
    if not 0 < arguments.overlap <= 1:
        raise ValueError(f"--overlap: found {arguments.overlap:g}, expected over 0, and at most 1")
    if arguments.detector and (arguments.clusters or arguments.clusters_from):
        raise ValueError("--clusters: a detector names its regions itself; leave it out")
    if arguments.from_run and (arguments.checkpoint or arguments.random):
        raise ValueError("--from-run has weights of its own; leave --checkpoint and --random out")
    if not arguments.from_run and not (arguments.checkpoint or arguments.random):
        raise ValueError("without weights regions mean nothing: give --checkpoint FILE (or --random, for a trial)")
    for path in (arguments.checkpoint, arguments.from_run):
        if path and not Path(path).is_file():
            raise FileNotFoundError(f"{path}: there is no such file of weights")


def _build(arguments: argparse.Namespace, read_tower: ReadTower) -> "Maker":
    import torch

    from ..shards.writer import checksum
    from .detector import Choice, Detector, build_detector
    from .grid import BackboneGrid, CropGrid

    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device {device}: {str(error).splitlines()[0]}") from None
    torch.manual_seed(arguments.seed)
    weights = arguments.checkpoint or arguments.from_run
    about = {"weights": checksum(Path(weights)) if weights else f"random, seed {arguments.seed}"}
    grids = list(zip(arguments.grid[::2], arguments.grid[1::2], strict=True))
    if arguments.from_run:
        tower, size = read_tower(arguments.from_run, device)
        size = arguments.size or size
        if size is None:
            raise ValueError(f"{arguments.from_run} tells no one size of its pictures; give --size")
        return CropGrid(tower, size, grids, about, device)
    if arguments.detector:
        own = {} if arguments.size is None else {"min_size": arguments.size, "max_size": 5 * arguments.size // 3}
        model = build_detector(arguments.detector, arguments.checkpoint, **own)
        choice = Choice(arguments.threshold, arguments.least, arguments.most, arguments.overlap)
        return Detector(model, choice, about | {"name": arguments.detector} | own, device)
    from ...modalities.timm_image import TimmImage

    size = arguments.size or SIZE
    front_end = TimmImage(arguments.backbone, size, checkpoint=arguments.checkpoint)
    return BackboneGrid(front_end, size, grids, about | {"name": arguments.backbone}, device)
