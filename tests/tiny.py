"""Small real parts that many tests share: texts, pictures, encoders. Sizes are small, nothing else is."""

import torch

from interlingua.modalities.batch import Batch, Image, Regions, Text, number_positions
from interlingua.modalities.image_front_ends import Patches
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.embeddings import TextEmbeddings
from interlingua.models.fused import Fused
from interlingua.models.picture_embeddings import ImageEmbeddings
from interlingua.models.region_embeddings import TypedRegions
from interlingua.models.towers import ImageTower, TextTower
from interlingua.models.transformer import Transformer
from interlingua.models.two_towers import TwoTowers

VOCABULARY = Vocabulary(100)
WIDTH = 32
FEATURES, CLASSES, ATTRIBUTES = 12, 6, 4


def text(lengths, padded=None, left=False, seed=0, vocabulary=VOCABULARY, language=0) -> Text:
    """Random texts `<s> ... </s>` of the given lengths (controls counted); a length of 0 is an absent text.

    Args:
        lengths: Tokens of each text.
        padded: L; the longest where not given.
        left: Pad on the left.
        seed: Of the token ids; each row has draws of its own, so that a row does not depend on the others.
    """
    padded = padded or max([*lengths, 1])
    tokens = torch.full((len(lengths), padded), vocabulary.pad)
    present = torch.zeros(len(lengths), padded, dtype=torch.bool)
    word = torch.full((len(lengths), padded), -1)
    for row, length in enumerate(lengths):
        if length == 0:
            continue
        generator = torch.Generator().manual_seed(1000 * seed + row)
        start = padded - length if left else 0
        ids = torch.randint(5, vocabulary.size, (length,), generator=generator)
        ids[0], ids[-1] = vocabulary.start, vocabulary.end
        tokens[row, start : start + length], present[row, start : start + length] = ids, True
        word[row, start + 1 : start + length - 1] = torch.arange(length - 2)
    zeros = torch.zeros_like(tokens)
    return Text(tokens, present, zeros + language, word, zeros, zeros, number_positions(present))


def image(count, size=16, seed=0) -> Image:
    """Random pictures."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)
    return Image(pixels, torch.ones(count, dtype=torch.bool))


def regions(counts, padded=None, seed=0) -> Regions:
    """Random regions, of which a detector names class and attribute; each picture has draws of its own.

    Args:
        counts: Regions of each picture; 0: none.
        padded: R; the most of a picture where not given.
        seed: Of everything.
    """
    padded = max(counts, default=0) if padded is None else padded
    shapes = {"features": FEATURES, "boxes": 4, "classes": CLASSES, "attributes": ATTRIBUTES}
    fields = {name: torch.zeros(len(counts), padded, width) for name, width in shapes.items()}
    for row, count in enumerate(counts):
        generator = torch.Generator().manual_seed(1000 * seed + row)
        for name, field in fields.items():
            field[row, :count] = torch.rand(count, shapes[name], generator=generator)
    present = torch.arange(padded)[None] < torch.tensor(counts)[:, None]
    low, size = fields["boxes"].split(2, dim=2)
    classes, attributes = ((4 * fields[name]).softmax(2) * present[..., None] for name in ("classes", "attributes"))
    names = [number for one in (classes, attributes) for number in (one.argmax(2).masked_fill(~present, -1), one.amax(2))]
    boxes = torch.cat([low / 2, (low + size + 0.1) / 2.1], 2) * present[..., None]
    return Regions(fields["features"], boxes, present, classes, *names)


def batch(lengths=(7, 5, 9, 4), items=None, source="captions", **modalities) -> Batch:
    """A batch of texts; further modalities by name."""
    count = len(lengths)
    numbers = torch.arange(count)
    item = numbers if items is None else torch.tensor(items)
    return Batch(source, item, numbers, torch.zeros_like(numbers), **{"text": text(lengths), **modalities})


def embeddings(dropout=0.0, **options) -> TextEmbeddings:
    return TextEmbeddings(
        options.pop("vocabulary", VOCABULARY), WIDTH, options.pop("max_tokens", 64), dropout=dropout, **options
    )


def transformer(layers=2, dropout=0.0, **options) -> Transformer:
    return Transformer(WIDTH, layers, heads=4, dropout=dropout, **options)


def text_tower(**options) -> TextTower:
    return TextTower(embeddings(**options), transformer())


def encode(tower, text):
    """States of a text tower."""
    return tower.encode(text)[0]


def two_towers(vector_width=24, **options) -> TwoTowers:
    front_end = Patches(WIDTH, patch=8, size=16)
    return TwoTowers(text_tower(**options), ImageTower(front_end, transformer()), vector_width=vector_width)


def single_stream(**options) -> Fused:
    """Text and patches of a picture in two joint layers."""
    return fused("2 joint", text_tower(**options), ImageEmbeddings(Patches(WIDTH, patch=8, size=16), WIDTH, dropout=0.0))


def fused(plan, text=None, picture=None, **options) -> Fused:
    """Any plan, without dropout."""
    return Fused(
        plan, text or text_tower(), picture or ImageEmbeddings(Patches(WIDTH, patch=8, size=16), WIDTH, dropout=0.0), **options
    )


def region_stream(plan="2 joint", picture=None) -> Fused:
    """Text and regions, as in UNITER where no other embeddings are given."""
    picture = picture or TypedRegions(FEATURES, WIDTH, dropout=0.0)
    return fused(plan, text_tower(segments=2), picture)
