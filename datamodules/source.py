"""One source: what is read of its samples, how much at a time, and in which proportions."""

from dataclasses import dataclass, replace

from ..modalities.augmentation import ImageTransform
from .choice import TextChoice, TranslationChoice
from .draws import Sampling
from .region_choice import RegionChoice
from .shards.cache import Cache
from .shards.fields import FieldMap

MICRO_BATCH_TOKENS, BATCH_TOKENS = 2**12, 2**15
"""Slots of a micro-batch and of a step where a source sets neither rows nor tokens."""


@dataclass(frozen=True)
class Source:
    """What is read of each sample. A sample that lacks any of it is left out before training starts, and counted.

    A step is made of rows (`batch_size`) or of tokens (`batch_tokens`). Rows suit contrastive objectives, whose number of
    negatives must not vary; tokens suit all others: texts of like length are read together, so that little is padding.
    Where neither is given, a step has 32,768 tokens in micro-batches of 4,096.

    Args:
        shards: Paths or patterns of tars.
        batch_size: Rows of one optimiser step, over all processes.
        micro_batch_size: Rows that a process reads forward and backward at once; None: all of its share. In validation
            one process reads a whole batch, of this many rows (None: of `batch_size` rows).
        text: Which text is read; None: none.
        translation: Which other text stands beside it, in another language; None: none.
        image: How pictures are prepared; None: they are not looked at.
        regions: Which regions of pictures are read (`regions: {}`: the first 100 of each); None: they are not looked at. Where
            the picture is read too, their boxes are told in the frame that it is cut to, mirrored with it.
        fields: What the members of foreign shards are; None: the project's own layout.
        batch_tokens: Slots of one optimiser step, over all processes, padding included: a multiple of `micro_batch_tokens`.
        micro_batch_tokens: Slots that a process reads at once: rows times the longest text (plus rows times the longest
            translation, or what follows).
        pack: Whether several texts stand in one row, as long as `max_tokens`, and do not see each other (for objectives
            that score tokens, without translation and picture).
        sampling: How often each language is drawn; None: samples as they come, and of each any of its languages.
        window: Remote shards that are open at a time: samples are shuffled among those of a window.
        cache: Where remote shards are kept; None: in the user's cache folder.
        following: Most sentences of the text, and of a second text that goes on where it ends, in the language of the first;
            None: no such second text. Read of documents alone; towards the end of one both are shorter, and the
            second has one sentence at least.
        alternate: Most sentences of a passage of a document, two or more, whose second, fourth, ... sentence is read in its
            translation, all in the row of the text; None: no such passages. Read of documents alone, in languages in which they
            have as many sentences; it begins at any sentence but the last.
    """

    shards: str | list[str]
    batch_size: int | None = None
    micro_batch_size: int | None = None
    text: TextChoice | None = None
    translation: TranslationChoice | None = None
    image: ImageTransform | None = None
    regions: RegionChoice | None = None
    fields: FieldMap | None = None
    batch_tokens: int | None = None
    micro_batch_tokens: int | None = None
    pack: bool = False
    sampling: Sampling | None = None
    window: int = 4
    cache: Cache | None = None
    following: int | None = None
    alternate: int | None = None

    def __post_init__(self):
        for field in ("batch_size", "micro_batch_size", "batch_tokens", "micro_batch_tokens", "window", "following"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} is {value}; give at least 1")
        if self.alternate is not None and self.alternate < 2:
            raise ValueError(f"alternate is {self.alternate}; give at least 2 sentences, one in each language")
        if self.text is None and self.image is None and self.regions is None:
            raise ValueError(f"source of {self.shards}: neither `text` nor `image` nor `regions` is read; give at least one")
        for field in ("translation", "following"):
            if getattr(self, field) is not None and self.text is None:
                raise ValueError(f"source of {self.shards}: a `{field}` stands beside a `text`; give `text`, if only as {{}}")
        if self.translation is not None and self.following is not None:
            raise ValueError(
                f"source of {self.shards}: the second text is a `translation`, or what is `following` in the document; give one"
            )
        if self.alternate is not None and (self.translation is None or self._sees):
            raise ValueError(
                f"source of {self.shards}: `alternate` reads every second sentence in its translation, and no picture; give "
                "`translation`, if only as {}, and leave out image and regions"
            )
        self._check_sizes()

    def _check_sizes(self) -> None:
        rows = self.batch_size is not None or self.micro_batch_size is not None
        if rows and (self.batch_size is None or self.batch_tokens is not None or self.micro_batch_tokens is not None):
            raise ValueError(
                f"source of {self.shards}: a step is made of rows (batch_size, micro_batch_size) or of tokens (batch_tokens, "
                "micro_batch_tokens); give the sizes of one kind"
            )
        if not rows and self.text is None:
            raise ValueError(f"source of {self.shards}: pictures alone have no tokens to count; give batch_size")
        if self.pack and (rows or self.translation is not None or self.following is not None or self._sees):
            raise ValueError(
                f"source of {self.shards}: `pack` fills rows with texts alone, counted in tokens; leave out batch_size, "
                "translation, following, image and regions, or pack"
            )
        if self.sampling is not None and self.text is None:
            raise ValueError(f"source of {self.shards}: `sampling` is over the languages of a `text`; give one")
        if not rows and self.tokens % self.micro_tokens:
            raise ValueError(
                f"source of {self.shards}: batch_tokens {self.tokens} is no multiple of micro_batch_tokens {self.micro_tokens}"
            )

    @property
    def _sees(self) -> bool:
        return self.image is not None or self.regions is not None

    @property
    def two_texts(self) -> bool:
        """Whether a second text stands beside the first."""
        return self.following is not None or (self.translation is not None and self.alternate is None)

    @property
    def tokens(self) -> int:
        """Slots of a step that is made of tokens."""
        return self.batch_tokens or (BATCH_TOKENS if self.micro_batch_tokens is None else 8 * self.micro_batch_tokens)

    @property
    def micro_tokens(self) -> int:
        """Slots of a micro-batch of such a step."""
        return self.micro_batch_tokens or min(MICRO_BATCH_TOKENS, self.tokens)

    def in_language(self, language: str) -> "Source":
        """The same with one language alone, as it comes: of the translation, where there is one, else of the text."""
        if self.translation is not None:
            return replace(self, translation=replace(self.translation, languages=[language]), sampling=None)
        return replace(self, text=self.text and replace(self.text, languages=[language]), sampling=None)
