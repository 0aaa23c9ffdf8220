"""The batch: what passes between the loader, the encoders and the objectives, for every modality.

A NamedTuple of NamedTuples: immutable, changed only by `_replace`; Lightning moves it, `pin_memory` pins it, workers
pickle it, `torch.compile` reads it without breaks. A modality that a batch does not have is `None`; a modality that
single samples lack is absent by its `present`.

Axes:
    B   samples of the batch
    L   text positions, padded to the longest of the batch (left or right: only `present` says what is there)
    C   colour channels (3), H and W: rows and columns of pixels
    P   vectors the image front end makes of one picture (patches, or cells of a feature map)
    R   regions of a picture, F: width of a region's feature, K: classes of the detector
    S   audio samples at `rate` per second
    N   codes (discrete units of speech, video or pictures)
    A   aligned pairs of words

Truth and marks: what the loader fills is the truth and is never overwritten. An objective hides something by filling
the marks beside it: `shown` (what the encoder reads instead) and `hidden` (what must be predicted). `None` marks mean
nothing is hidden. Marks that are there are kept by every later objective of the same reading.
"""

from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor


class Text(NamedTuple):
    """Token ids of one text a sample, with everything that a tower or an objective may ask about a position."""

    tokens: Int[Tensor, "B L"]
    """Vocabulary ids as the tokenizer gave them: the truth. Where not `present`: the pad id."""
    present: Bool[Tensor, "B L"]
    """True where there is a token; decides what is attended to, never the pad id."""
    language: Int[Tensor, "B L"]
    """Language id (index into the tokenizer's list of languages) of each token."""
    word: Int[Tensor, "B L"]
    """Which word of the text a piece belongs to, from 0; -1 for control tokens and padding: those are never hidden."""
    segment: Int[Tensor, "B L"]
    """Half of a pair (0, 1); both halves attend to each other."""
    document: Int[Tensor, "B L"]
    """Packed text of the row; attention never crosses from one document to another. 0 where rows are not packed."""
    position: Int[Tensor, "B L"]
    """Position from 0, counted over present tokens, restarting where a document (or, as configured, a segment) starts."""
    shown: Int[Tensor, "B L"] | None = None
    """Mark: ids the encoder reads instead of `tokens`."""
    hidden: Bool[Tensor, "B L"] | None = None
    """Mark: positions whose token must be predicted (whether or not it is still shown)."""

    @property
    def read(self) -> Int[Tensor, "B L"]:
        """Ids the encoder reads: `shown` where an objective has marked the text, else `tokens`."""
        return self.tokens if self.shown is None else self.shown


class Image(NamedTuple):
    """One picture a sample, as bytes; normalised on the device by the front end."""

    pixels: UInt8[Tensor, "B C H W"]
    """Red, green, blue from 0 to 255; zeros where not `present`."""
    present: Bool[Tensor, "B"]
    """True where the sample has a picture."""
    hidden: Bool[Tensor, "B P"] | None = None
    """Mark: vectors of the front end that the encoder must not see and an objective predicts."""


class Regions(NamedTuple):
    """Regions of one picture a sample, as a detector found them."""

    features: Float[Tensor, "B R F"]
    """The detector's vector of each region: the truth."""
    boxes: Float[Tensor, "B R 4"]
    """x0, y0, x1, y1 as fractions of the picture's width and height, x0 < x1 and y0 < y1."""
    present: Bool[Tensor, "B R"]
    """True where there is a region."""
    classes: Float[Tensor, "B R K"] | None = None
    """The detector's class probabilities."""
    label: Int[Tensor, "B R"] | None = None
    """The detector's most probable class; -1 where it names none."""
    confidence: Float[Tensor, "B R"] | None = None
    """Probability of `label`, 0 to 1."""
    attribute: Int[Tensor, "B R"] | None = None
    """The detector's most probable attribute (colour, material, ...); -1 where it names none."""
    attribute_confidence: Float[Tensor, "B R"] | None = None
    """Probability of `attribute`, 0 to 1."""
    shown: Float[Tensor, "B R F"] | None = None
    """Mark: features the encoder reads instead of `features`."""
    hidden: Bool[Tensor, "B R"] | None = None
    """Mark: regions whose feature or class must be predicted."""

    @property
    def read(self) -> Float[Tensor, "B R F"]:
        """Features the encoder reads: `shown` where an objective has marked the regions, else `features`."""
        return self.features if self.shown is None else self.shown


class Audio(NamedTuple):
    """One recording a sample."""

    wave: Float[Tensor, "B S"]
    """Mono samples in [-1, 1]; zeros where not `present`."""
    present: Bool[Tensor, "B S"]
    """True where there is sound (silence included)."""
    rate: int
    """Samples a second, the same for the whole batch."""
    hidden: Bool[Tensor, "B N"] | None = None
    """Mark: frames of the front end that must be predicted."""


class Codes(NamedTuple):
    """One sequence of discrete units a sample (video codes, speech units, picture codes)."""

    ids: Int[Tensor, "B N"]
    """Codebook entries: the truth."""
    present: Bool[Tensor, "B N"]
    """True where there is a code."""
    shown: Int[Tensor, "B N"] | None = None
    """Mark: codes the encoder reads instead of `ids`."""
    hidden: Bool[Tensor, "B N"] | None = None
    """Mark: codes that must be predicted."""

    @property
    def read(self) -> Int[Tensor, "B N"]:
        """Codes the encoder reads: `shown` where an objective has marked the sequence, else `ids`."""
        return self.ids if self.shown is None else self.shown


class Target(NamedTuple):
    """What people say of each sample, and fine-tuning learns to say."""

    label: Int[Tensor, "B"] | None = None
    """Class of the sample; -1 where it has none."""
    tags: Int[Tensor, "B L"] | None = None
    """Class of each token of `text`, on the first piece of a word; -1 where nothing is scored."""
    span: Int[Tensor, "B 2"] | None = None
    """First and last token of `text` that answer it; -1 where it has no answer (in this row), -2 where it has one whose place
    is not told."""


class Batch(NamedTuple):
    """Samples of one source. Every modality is optional; identity is not."""

    source: str
    """Name of the source in the data configuration; decides which passes are read."""
    item: Int[Tensor, "B"]
    """Identity of what the sample is about: captions of one picture share it. Positives and negatives are decided by it."""
    sample: Int[Tensor, "B"]
    """Number of the sample in its source; with `epoch` it keys everything random about the sample but dropout."""
    epoch: Int[Tensor, "B"]
    """How many times the source had been read through when this sample was drawn."""
    text: Text | None = None
    translation: Text | None = None
    """A second text of the sample: a translation, another caption, or the sentences that follow the text."""
    image: Image | None = None
    regions: Regions | None = None
    audio: Audio | None = None
    codes: Codes | None = None
    alignment: Int[Tensor, "B A 2"] | None = None
    """Pairs of words (of `text`, of `translation`) that translate each other; -1 where there is no pair."""
    target: Target | None = None
    matched: Bool[Tensor, "B"] | None = None
    """Mark: False where an objective put another item's text in the place of the sample's own; None: all belong."""

    @property
    def size(self) -> int:
        """Number of samples, B."""
        return self.item.shape[0]


class Fault(NamedTuple):
    """One sample that could not be read: a counted hole in a step."""

    kind: str
    """Short fixed name of what is wrong, such as `truncated image`; faults are counted by it."""
    shard: str
    key: str
    detail: str


class Step(NamedTuple):
    """All that one rank trains on in one optimiser step."""

    number: int
    """Number of the optimiser step, from 0."""
    batches: tuple[Batch, ...]
    """Micro-batches; each holds one source, in the same order of sources on every rank."""
    faults: tuple[Fault, ...] = ()


Rows = TypeVar("Rows", bound=tuple)


def take(rows: Rows, index: Tensor) -> Rows:
    """Rows of a batch (or of one of its modalities) by index or by boolean mask, in the index's order.

    Args:
        rows: Any NamedTuple of this file; fields that are not tensors are kept.
        index: Row numbers `[N]`, or a mask `[B]`.
    """

    def pick(field):
        if isinstance(field, Tensor):
            return field[index]
        return take(field, index) if isinstance(field, tuple) else field

    return type(rows)(*map(pick, rows))


def number_positions(present: Bool[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """Positions from 0 over present tokens, the same for left and right padding; 0 where nothing is present."""
    return (torch.cumsum(present, dim=1) - 1).clamp_min(0)
