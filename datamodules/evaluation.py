"""Data of retrieval between pictures, or their regions, and texts: each once, apart from each other."""

from functools import partial

import numpy as np
import torch
from jaxtyping import Int64
from lightning import LightningDataModule

from ..modalities.augmentation import ImageTransform
from ..modalities.batch import Fault
from ..modalities.chance import chance
from ..modalities.image import BadImageError, collate_images
from ..modalities.region import collate_regions
from ..modalities.tokenizer import Tokenizer
from .choice import TextChoice
from .dealing import Batches, check_numbers
from .evaluation_reading import Identities, Told, cut, identify, open_sources, read_texts
from .faults import FaultTally
from .filtering import TextRows
from .region_choice import RegionChoice
from .region_reading import RegionReader
from .sample import BadSampleError
from .shards.cache import Cache
from .shards.fields import REGIONS, FieldMap
from .shards.reader import ShardSet
from .steps import Reading


class RetrievalData(LightningDataModule):
    """Test batches of one source that hold either pictures alone or texts of one language alone.

    A picture is an item: of several samples about one item, the picture of the first is taken. Of samples whose item has
    a picture, every text that `texts` takes is a query. `Batch.item` says what belongs together; `Batch.sample` numbers
    pictures and texts of a source (each kind for itself), so that nothing is counted twice whatever the number of
    processes. A picture that cannot be read is a counted hole: its texts come all the same.
    """

    def __init__(
        self,
        sources: dict[str, str | list[str]],
        tokenizer: str,
        image: ImageTransform | None = None,
        texts: TextChoice = TextChoice(),  # noqa: B008, frozen
        max_tokens: int = 128,
        batch_size: int = 128,
        fields: FieldMap | None = None,
        workers: int = 2,
        start_method: str | None = None,
        max_bad_share: float = 0.02,
        cache: Cache | None = None,
        regions: RegionChoice | None = None,
        items: int | None = None,
    ):
        """
        Args:
            sources: Paths or patterns of tars, by the name under which results are given.
            tokenizer: Tokenizer file.
            image: How pictures are prepared, always without augmentation; None: only their regions are read.
            texts: Languages and roles of the texts that are queries; weights have no meaning here.
            max_tokens: Longest text, start and end token included.
            batch_size: Rows of a batch; each process reads whole batches.
            fields: What the members of foreign shards are; None: the project's own layout.
            workers: Processes that read ahead for each process.
            start_method: How they are started (`fork`, `spawn`, `forkserver`); None: the platform's own way.
            max_bad_share: Share of rows that cannot be read, above which reading is an error.
            cache: Where remote shards are kept; None: in the user's cache folder.
            regions: Which regions of pictures are read, for encoders of regions; with an `image` beside them, boxes are told
                in what is shown of it, and pages show it. None: they are not looked at.
            items: Items of each source at most, those with the smallest hashes: where each text is read with each picture,
                all may be too many. None: all.

        Raises:
            ValueError: Neither `image` nor `regions`, or a number out of its range.
        """
        super().__init__()
        if image is None and regions is None:
            raise ValueError("retrieval: neither `image` nor `regions` is read; give what the encoder reads of pictures")
        check_numbers(workers, max_tokens, batch_size, start_method)
        if items is not None and items < 2:
            raise ValueError(f"retrieval: items is {items}; expected 2 or more, or null for all")
        self.sources, self.fields, self.texts, self.cache = sources, fields, texts, cache
        self.image, self.regions, self.items = image, regions, items
        self.tokenizer, self.max_tokens, self.batch_size = Tokenizer(tokenizer), max_tokens, batch_size
        self.workers, self.start_method, self.max_bad_share = workers, start_method, max_bad_share
        self.parts: list[partial[Reading]] = []

    def prepare_data(self) -> None:
        """Index the shards, once for all processes of a machine."""
        open_sources(self.sources, self.fields, self.cache)

    def setup(self, stage: str) -> None:
        """Open the shards and list all batches.

        Raises:
            FileNotFoundError, ValueError: A source has no picture with a text, or the tokenizer does not know a language.
        """
        if not self.parts:
            opened = open_sources(self.sources, self.fields, self.cache)
            self.parts = [part for name, shards in opened.items() for part in self._list(name, shards)]

    def _list(self, name: str, shards: ShardSet) -> list[partial[Reading]]:
        FaultTally(f"source {name}", self.max_bad_share).add(len(shards), shards.faults)
        pictures = find_pictures(shards, self.image is not None, self.regions is not None)
        if self.items is not None and len(pictures) > self.items:
            order = chance(0, torch.from_numpy(shards.items[pictures])).argsort(stable=True).numpy()
            pictures = np.sort(pictures[order[: self.items]])
        try:
            regions = None if self.regions is None or not len(pictures) else RegionReader(self.regions, shards, pictures)
            texts = find_texts(shards, self.texts, pictures)
            for language in texts:
                self.tokenizer.language_id(language)
        except ValueError as error:
            raise ValueError(f"source {name!r}: {error}") from None
        if not texts:
            raise ValueError(
                f"source {name!r}: no picture with a text to find it by; {len(pictures)} pictures in "
                f"{len(shards)} samples, languages found: {', '.join(shards.languages) or 'none'}"
            )
        read = partial(read_pictures, name, shards, self.image, regions)
        parts = [partial(read, rows) for rows in cut(pictures, self.batch_size)]
        read = partial(read_texts, name, shards, self.tokenizer, self.max_tokens, by_item)
        return parts + [partial(read, part) for rows in texts.values() for part in cut(rows, self.batch_size)]

    def test_dataloader(self) -> Batches:
        """All batches of this process: as many as each other has, perhaps with an empty one at the end."""
        tally = FaultTally("evaluation", self.max_bad_share)
        return Batches(self.parts, self.trainer, self.workers, self.start_method, tally)


def find_pictures(shards: ShardSet, image: bool = True, regions: bool = False) -> Int64[np.ndarray, "N"]:
    """Numbers of the samples whose pictures are searched: the first of each item that has one, ascending.

    Args:
        shards: Where they are.
        image, regions: What a sample must have.
    """
    wanted = [*([shards.has_image] if image else []), *([shards.has(REGIONS)] if regions else [])]
    having = np.flatnonzero(np.logical_and.reduce(wanted))
    _, first = np.unique(shards.items[having], return_index=True)
    return np.sort(having[first])


def find_texts(shards: ShardSet, choice: TextChoice, pictures: Int64[np.ndarray, "N"]) -> dict[str, Int64[np.ndarray, "_"]]:
    """Numbers of the texts (in `ShardSet.texts`) that are queries, by language; languages sorted.

    Args:
        shards: Pictures and texts.
        choice: Which texts.
        pictures: Samples whose pictures are searched; texts about other items are left out.
    """
    rows = TextRows.of(shards)
    about = np.isin(shards.items, shards.items[pictures])[rows.sample]
    taken = rows.taken(choice) & about
    numbers = {code: np.flatnonzero(taken & (rows.language == place)) for place, code in enumerate(rows.languages)}
    return {code: texts for code, texts in numbers.items() if len(texts)}


def read_pictures(
    name: str, shards: ShardSet, transform: ImageTransform | None, regions: RegionReader | None, numbers: np.ndarray
) -> Reading:
    """One batch of pictures.

    Args:
        name: Name of the source.
        shards: Where the pictures are.
        transform: How they are prepared; None: they are not read.
        regions: What reads their regions; None: these are not read.
        numbers: Samples `[N]`.
    """
    items, pictures, found, slots, faults = [], [], [], [], []
    for slot, number in enumerate(numbers.tolist()):
        try:
            members = () if regions is None else (REGIONS,)
            sample = shards.read(number, image=transform is not None, members=members)
            if transform is not None and sample.image is None:
                raise BadSampleError("missing image", "the picture that the index names is not there any more")
            shown = None if transform is None else transform.show(sample.image, None)
            if regions is not None:
                found.append(regions.read(sample, shown))
            if shown is not None:
                pictures.append(shown.pixels)
            items.append(sample.item)
            slots.append(slot)
        except (BadSampleError, BadImageError) as error:
            faults.append(Fault(error.kind, *shards.find(number), error.detail))
    if not items:
        return Reading(None, [], faults)
    batch = identify(name, Identities(items, numbers[slots].tolist()))
    if transform is not None:
        batch = batch._replace(image=collate_images(pictures, transform.size))
    if regions is not None:
        batch = batch._replace(regions=collate_regions(found, regions.form))
    return Reading(batch, slots, faults)


def by_item(told: Told) -> Identities:
    """Texts about one item belong together; each text counts for itself."""
    return Identities([sample.item for sample in told.samples], told.numbers)
