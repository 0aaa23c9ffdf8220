"""Data of the input benchmark: photograph-like JPEGs with captions in shards, and one vocabulary for both sides.

Pictures are noise whose amplitude falls with the frequency, as that of photographs does, 640 x 480 at quality 90: about as
many bytes as those of COCO. Captions are names of emoji, joined until they have 11 pieces: 13 tokens with start and end.
"""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from interlingua.datamodules.quickstart.write import load_emoji
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.train_tokenizer import train_tokenizer
from interlingua.modalities.tokenizer import Tokenizer

HEIGHT, WIDTH, QUALITY, CONTRAST = 480, 640, 90, 36
PIECES, VOCABULARY, DRAWN = 11, 8000, 100


def make_data(folder: Path, samples: int, shards: int, seed: int = 0) -> Tokenizer:
    """Write the shards and train the tokenizer, into an empty folder.

    Args:
        folder: Gets `shard-*.tar` and `shared.model`.
        samples: All told; every picture is used several times, with other captions.
        shards: Tars.
        seed: Of pictures and captions.
    """
    names = [caption for emoji in load_emoji()[0] for caption in emoji.texts]
    lines = ((caption.language, caption.text) for caption in names)
    tokenizer = train_tokenizer(lines, folder / "shared.model", VOCABULARY, report=lambda line: None)
    pictures = [draw_picture(seed + number) for number in range(min(DRAWN, samples))]
    captions = write_captions(tokenizer, [name.text for name in names if name.language == "en"], seed)
    with ShardWriter(folder / "shards", samples_per_shard=samples // shards) as writer:
        for number in range(samples):
            texts = [Caption("en", next(captions))]
            writer.write(f"{number:06d}", texts, item=number, image=pictures[number % len(pictures)])
    return tokenizer


def draw_picture(seed: int) -> bytes:
    """A JPEG of noise, amplitude 1 / frequency, the three colours much alike."""
    random = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None])
    frequency[0, 0] = 1
    spectra = np.fft.rfft2(random.standard_normal((4, HEIGHT, WIDTH))) / frequency
    common, *own = (plane / plane.std() for plane in np.fft.irfft2(spectra, s=(HEIGHT, WIDTH)))
    colours = np.stack([(common + 0.4 * plane) / (common + 0.4 * plane).std() for plane in own], axis=2)
    pixels = (128 + CONTRAST * colours).clip(0, 255).astype(np.uint8)
    content = io.BytesIO()
    Pillow.fromarray(pixels).save(content, "JPEG", quality=QUALITY)
    return content.getvalue()


def write_captions(tokenizer: Tokenizer, names: list[str], seed: int) -> Iterator[str]:
    """Captions without end."""
    random = np.random.default_rng(seed)
    while True:
        caption = ""
        while (count := int(tokenizer.encode([caption]).counts[0])) < PIECES:
            caption = f"{caption} {random.choice(names)}".strip()
        if count == PIECES:
            yield caption
