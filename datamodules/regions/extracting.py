"""Pictures of shards to regions, shard by shard, and on to classes by clusters where nobody named them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from ...modalities.image import BadImageError
from ...modalities.region import BadRegionsError, FoundRegions, check_regions, pack_regions, unpack_regions
from ..arrays import load_arrays
from ..sample import Sample
from ..shards.fields import FieldMap
from ..shards.paths import find_shards
from ..shards.reader import ShardSet
from .adding import ADDED, REGIONS, bounds, count_faults, identify, refuse_regions, tell_counts, with_members
from .clusters import Clusters, learn_clusters, write_clusters
from .copying import EXTENSION, copy_with_regions, describe_shard, summarize
from .maker import Maker, Prepared
from .watching import watch
from .working import Stage, discard, open_working

LEARNT_FROM = 200_000
"""Features that clusters are learnt from at most, evenly spread over the samples."""
CLUSTERS = "clusters.npz"


class Clustering(NamedTuple):
    """Classes for regions without."""

    count: int = 0
    """Clusters to be learnt; 0: none."""
    seed: int = 0
    known: Clusters | None = None
    """Clusters that were learnt elsewhere."""


class Pace(NamedTuple):
    """How the work is done; the result does not depend on it."""

    batch: int = 32
    """Pictures read together."""
    threads: int = 2
    """That decode pictures."""


class Extracted(NamedTuple):
    """What was done."""

    samples: int
    counts: Counter[str]
    examples: dict[str, str]
    pictures: int
    """Read by this call."""
    seconds: float


def extract_regions(
    maker: Maker,
    paths: Sequence[str] | str,
    out: Path,
    clustering: Clustering | None = None,
    pace: Pace | None = None,
    fields: FieldMap | None = None,
    replace: bool = False,
    force: bool = False,
) -> Extracted:
    """Write a copy of shards with the regions that are found in their pictures.

    Shards, samples and all members stay as they are; samples without a picture are copied without regions. An interrupted
    call goes on, when it is made again, with the shard that it was in.

    Args:
        maker: Finds the regions.
        paths: Local shards, as of `ShardSet`.
        out: Folder for the copy; `clusters.npz` goes there too, if clusters are learnt.
        clustering: Classes for regions, for makers that name none.
        pace: Batch and threads.
        fields: What the members of the shards are.
        replace: Take out regions that are in the shards already.
        force: Replace shards that are in the folder.

    Raises:
        FileExistsError: The folder is not empty.
        ValueError: No picture has regions, samples have regions already, clusters are of other features, or the folder is not
            fit.
    """
    clustering, pace = clustering or Clustering(), pace or Pace()
    fields, tars, started = with_members(fields or FieldMap(), EXTENSION), find_shards(paths), perf_counter()
    known = clustering.known
    if known is not None and known.about != maker.describe():
        differ = [name for name in {**known.about, **maker.describe()} if known.about.get(name) != maker.describe().get(name)]
        raise ValueError(f"--clusters-from: learnt from features that differ in {', '.join(sorted(differ))}; make them alike")
    plan = {
        **{"command": "extract", "maker": maker.describe(), "map": fields.fingerprint},
        **{"clusters": [clustering.count, clustering.seed], "shards": [identify(tar) for tar in tars]},
        "known clusters": None if known is None else [float(known.centres.double().sum()), known.gap, *known.centres.shape],
    }
    with open_working(out, tars, plan, force) as working, TemporaryDirectory(prefix="interlingua-") as indexes:
        shards = ShardSet(paths, fields, indexes)
        refuse_regions(shards, replace)
        extractor = _Extractor(shards, fields, maker, pace, known)
        found = working.stage("found" if clustering.count else "shards")
        with watch(len(shards), "finding regions", "samples") as advance:
            for tar, (first, end) in zip(tars, bounds(shards), strict=True):
                if found.is_finished(tar.name):
                    advance(end - first)
                else:
                    extractor.write(tar, range(first, end), found, advance)
        counts = found.counts(working.names) + count_faults(shards)
        if not counts[ADDED]:
            discard(out)
            raise ValueError(f"no picture got regions: {tell_counts(counts)}")
        stage, others = found, []
        if clustering.count:
            stage, others = working.stage("shards"), [working.folder / CLUSTERS]
            _classify_all(found, stage, working.names, clustering, maker.describe(), fields, others[0])
        working.publish(stage, summarize([stage.read(name)["entry"] for name in working.names]), others)
        shards.close()
        return Extracted(len(shards), +counts, extractor.examples, extractor.pictures, perf_counter() - started)


class _Extractor:
    def __init__(self, shards: ShardSet, fields: FieldMap, maker: Maker, pace: Pace, known: Clusters | None):
        self.shards, self.fields, self.maker, self.pace, self.known = shards, fields, maker, pace, known
        self.examples: dict[str, str] = {}
        self.pictures = 0

    def write(self, tar: Path, numbers: range, stage: Stage, advance: Callable[[int], None]) -> None:
        """One shard."""
        counts: Counter[str] = Counter()
        partial = stage.partial(tar.name)
        copy_with_regions(tar, partial, self._regions(numbers, counts, advance))
        stage.finish(tar.name, describe_shard(partial, tar.name, self.fields), counts)

    def _regions(self, numbers: range, counts: Counter[str], advance: Callable[[int], None]) -> Iterator[tuple[str, bytes]]:
        """Key and regions of each sample with any; the next batch is decoded while one is read."""
        batches = [numbers[start : start + self.pace.batch] for start in range(0, len(numbers), self.pace.batch)]
        with ThreadPoolExecutor(self.pace.threads) as pool:
            waiting: list[Future] = []
            for batch, following in zip([(), *batches], [*batches, ()], strict=True):
                prepared = [one.result() for one in waiting]
                waiting = [pool.submit(self._prepare, self.shards.read(number)) for number in following]
                yield from self._read(prepared, counts)
                advance(len(batch))

    def _prepare(self, sample: Sample) -> tuple[str, str, Prepared | BadImageError | None]:
        try:
            picture = None if sample.image is None else self.maker.prepare(sample.image)
        except BadImageError as error:
            return sample.shard, sample.key, error
        return sample.shard, sample.key, picture

    def _read(
        self, prepared: Sequence[tuple[str, str, Prepared | BadImageError | None]], counts: Counter[str]
    ) -> Iterator[tuple[str, bytes]]:
        pictures = [picture for _, _, picture in prepared if isinstance(picture, Prepared)]
        self.pictures += len(pictures)
        found = iter(self.maker.find(pictures) if pictures else [])
        for shard, key, picture in prepared:
            if picture is None:
                counts["no picture"] += 1
                continue
            try:
                if isinstance(picture, BadImageError):
                    raise picture
                own = self._check(next(found), picture)
                content = pack_regions(own)
            except (BadImageError, BadRegionsError) as error:
                counts[error.kind] += 1
                self.examples.setdefault(error.kind, f"{shard}, {key}: {error.detail}")
                continue
            counts[ADDED] += 1
            counts[REGIONS] += len(own.boxes)
            yield key, content

    def _check(self, own: FoundRegions, picture: Prepared) -> FoundRegions:
        check_regions(own, picture.size)
        return own if self.known is None else _classify(own, self.known)


def _classify(found: FoundRegions, clusters: Clusters) -> FoundRegions:
    features = found.features.astype(np.float16)  # as they are stored, so that both ways to here agree
    return found._replace(classes=clusters.classify(features))


def _classify_all(
    found: Stage,
    stage: Stage,
    names: Sequence[str],
    clustering: Clustering,
    about: dict[str, Any],
    fields: FieldMap,
    path: Path,
) -> None:
    """Learn clusters from what was found, and write the shards anew with classes."""
    with TemporaryDirectory(prefix="interlingua-") as indexes:
        shards = ShardSet([str(found.folder / name) for name in names], with_members(fields, EXTENSION), indexes)
        clusters = learn_clusters(_gather(shards), clustering.count, clustering.seed, about)
        write_clusters(clusters, path)
        with watch(len(shards), "naming regions", "samples") as advance:
            for name, (first, end) in zip(names, bounds(shards), strict=True):
                if not stage.is_finished(name):
                    partial = stage.partial(name)
                    copy_with_regions(found.folder / name, partial, _name(shards, range(first, end), clusters, advance))
                    stage.finish(name, describe_shard(partial, name, fields), found.read(name)["counts"])
        shards.close()


def _read_regions(shards: ShardSet, number: int) -> tuple[str, FoundRegions | None]:
    sample = shards.read(number, image=False)
    stored = sample.members.get(EXTENSION)
    return sample.key, None if stored is None else unpack_regions(load_arrays(stored))


def _gather(shards: ShardSet) -> torch.Tensor:
    """Features to learn from: of all samples, or of every so many."""
    first = next(found for number in range(len(shards)) if (found := _read_regions(shards, number)[1]) is not None)
    step = max(1, len(shards) * len(first.boxes) // LEARNT_FROM)
    every = (_read_regions(shards, number)[1] for number in range(0, len(shards), step))
    features = [torch.from_numpy(found.features).float() for found in every if found is not None]
    return torch.cat(features)[:LEARNT_FROM]


def _name(shards: ShardSet, numbers: range, clusters: Clusters, advance: Callable[[int], None]) -> Iterator[tuple[str, bytes]]:
    for number in numbers:
        key, found = _read_regions(shards, number)
        if found is not None:
            yield key, pack_regions(_classify(found, clusters))
        advance(1)
