"""Input: from shards to marked batches, ours against webdataset with Pillow and Hugging Face's tokenizer and collator.

    python benchmarks/input.py
    python benchmarks/input.py --crop random
    python benchmarks/input.py --workers 2

JPEGs of 640 x 480 with a caption each, batches of 50, crops at 224, 15 % of the tokens hidden; shards, vocabulary and
distribution of crops are the same on both sides (see `pictures`). Before anything is timed, token ids must be equal and
the pixels of the same crop differ by no more than rounding. CPU time is that of the process and its workers together.
"decode" is decoding alone, of pictures in memory: no input can be faster with that decoder.

The peer is what the manuals of its parts show: `decode("pil")`, Resize and CenterCrop as CLIP (or RandomResizedCrop of 0.8
to 1 of the area; both bicubic), ToTensor, Normalize; a batch of texts in one call of the fast tokenizer, then
DataCollatorForLanguageModeling. Its pictures leave the loader as normalised floats, ours as bytes that the model normalises
on its device; "normalised" adds that to ours, on the CPU.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import io
import multiprocessing
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import tokenizers
import torch
import transformers
import webdataset
from measure import cpu_seconds, interleave, ratio
from pictures import make_data
from PIL import Image as Pillow
from sentencepiece import SentencePieceProcessor
from torch.utils.data import DataLoader
from torchvision import transforms

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.source import Source
from interlingua.datamodules.steps import Steps, load
from interlingua.modalities import image
from interlingua.modalities.augmentation import ImageTransform, draw_luck
from interlingua.modalities.batch import Batch
from interlingua.modalities.image_front_ends import Normalise
from interlingua.modalities.tokenizer import Tokenizer
from interlingua.models.embeddings import TextEmbeddings
from interlingua.models.towers import TextTower
from interlingua.models.transformer import Transformer
from interlingua.tasks.objectives.masked_language import MaskedLanguage

SIZE, BATCH, SHARDS, LONGEST = 224, 50, 4, 64
CLIP_MEAN, CLIP_DEVIATION = (0.481, 0.458, 0.408), (0.269, 0.261, 0.276)


class Peer:
    """webdataset, Pillow, torchvision's transforms, Hugging Face's tokenizer and collator."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, workers: int, random: bool):
        self.shards = sorted(str(path) for path in (folder / "shards").glob("*.tar"))
        self.tokenizer = copy_tokenizer(str(folder / "shared.model"), tokenizer)
        self.collator = transformers.DataCollatorForLanguageModeling(self.tokenizer, mlm_probability=0.15)
        self.workers = workers
        bicubic = transforms.InterpolationMode.BICUBIC
        centre = (transforms.Resize(SIZE, bicubic), transforms.CenterCrop(SIZE))
        crop = (transforms.RandomResizedCrop(SIZE, scale=(0.8, 1.0), interpolation=bicubic),) if random else centre
        self.transform = transforms.Compose([*crop, transforms.ToTensor(), transforms.Normalize(CLIP_MEAN, CLIP_DEVIATION)])

    def prepare(self, sample: dict) -> tuple[int, torch.Tensor, str]:
        return int(sample["__key__"]), self.transform(sample["jpg"]), sample["json"]["texts"][0]["text"]

    def collate(self, rows: list[tuple[int, torch.Tensor, str]]) -> dict[str, torch.Tensor]:
        numbers, pixels, texts = zip(*rows, strict=True)
        encoded = self.tokenizer(list(texts), truncation=True, max_length=LONGEST, return_special_tokens_mask=True)
        features = [{name: column[row] for name, column in encoded.items()} for row in range(len(texts))]
        return {**self.collator(features), "number": torch.tensor(numbers), "pixels": torch.stack(pixels)}

    def batches(self) -> DataLoader:
        samples = webdataset.WebDataset(self.shards, shardshuffle=False).decode("pil").map(self.prepare)
        context = "fork" if self.workers else None
        return DataLoader(samples, BATCH, collate_fn=self.collate, num_workers=self.workers, multiprocessing_context=context)


def copy_tokenizer(model: str, tokenizer: Tokenizer) -> transformers.PreTrainedTokenizerFast:
    """Hugging Face's tokenizer with the pieces, scores and ids of ours."""
    processor, vocabulary = SentencePieceProcessor(model_file=model), tokenizer.vocabulary
    scored = [(processor.id_to_piece(number), processor.get_score(number)) for number in range(vocabulary.size)]
    unigram = tokenizers.models.Unigram(scored, vocabulary.unknown, byte_fallback=True)
    fast = tokenizers.Tokenizer(unigram)
    fast.normalizer = tokenizers.normalizers.NFKC()
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    names = {name: scored[getattr(vocabulary, name)][0] for name in ("pad", "unknown", "start", "end", "mask")}
    ends = [(names[name], getattr(vocabulary, name)) for name in ("start", "end")]
    fast.post_processor = tokenizers.processors.TemplateProcessing(f"{names['start']} $A {names['end']}", special_tokens=ends)
    found = transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast,
        pad_token=names["pad"],
        unk_token=names["unknown"],
        bos_token=names["start"],
        eos_token=names["end"],
        mask_token=names["mask"],
    )
    found.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True  # the collator pads
    return found


class Ours:
    """Our shards, loader and marks."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, workers: int, random: bool, simplejpeg: bool, scaled: bool = False):
        transform = ImageTransform(SIZE, "stretch" if random else "crop", scaled=scaled)
        source = Source(str(folder / "shards"), BATCH, text=TextChoice(), image=transform)
        self.reader = Reader("pictures", source, ShardSet(source.shards), tokenizer, LONGEST, augment=random)
        self.objective = MaskedLanguage()
        self.objective.connect(TextTower(TextEmbeddings(tokenizer.vocabulary, 8, LONGEST), Transformer(8, 1, 1)))
        self.normalise = Normalise(CLIP_MEAN, CLIP_DEVIATION)
        self.workers, self.simplejpeg, self.scaled = workers, simplejpeg, scaled

    def batches(self) -> Iterator[Batch]:
        reader = copy(self.reader)
        reader.shards = pickle.loads(pickle.dumps(reader.shards))  # keeps no texts of earlier rounds
        with decoder(self.simplejpeg):
            loader = load(Steps([reader]), range(len(reader) // BATCH), self.workers, pin=False, start_method="fork")
            for step in loader:
                yield self.objective.mark(step.batches[0])

    def normalised(self) -> Iterator[torch.Tensor]:
        return (self.normalise(batch.image.pixels, channels=1) for batch in self.batches())

    def decode(self, pictures: list[bytes]) -> None:
        """Decoding alone."""
        with decoder(self.simplejpeg):
            for picture in pictures:
                image.decode_image(picture, shrink=2 if self.scaled else 1)

    def decode_by_workers(self, pictures: list[bytes]) -> None:
        """Decoding alone, each worker its part, given to nobody."""
        if not self.workers:
            return self.decode(pictures)
        parts = [pictures[number :: self.workers] for number in range(self.workers)]
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=self.decode, args=(part,)) for part in parts]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


@contextmanager
def decoder(simplejpeg: bool) -> Iterator[None]:
    """With simplejpeg, or as where it is not installed."""
    if simplejpeg:
        yield
    else:
        with patch.object(image, "_simplejpeg", lambda: None):
            yield


def compare_outputs(peer: Peer, ours: Ours, pictures: list[bytes]) -> dict[str, float]:
    """Raise unless both sides give the same ids, and the same pixels but for rounding."""
    theirs = {
        int(batch["number"][row]): batch["labels"][row].where(batch["labels"][row] >= 0, batch["input_ids"][row])
        for batch in peer.batches()
        for row in range(len(batch["number"]))
    }
    lengths = []
    for batch in ours.batches():
        for number, tokens, present in zip(batch.sample.tolist(), batch.text.tokens, batch.text.present, strict=True):
            length = int(present.sum())
            if not theirs[number][:length].equal(tokens[:length]):
                raise SystemExit(f"sample {number}: token ids differ: {theirs[number].tolist()}, ours {tokens.tolist()}")
            lengths.append(length)
    differences = []
    for picture, luck in zip(pictures[:20], draw_luck(torch.arange(20)), strict=True):
        window = ours.reader.source.image.window(480, 640, luck)
        part = transforms.functional.resized_crop(
            Pillow.open(io.BytesIO(picture)).convert("RGB"),
            window.top,
            window.left,
            window.height,
            window.width,
            [SIZE, SIZE],
            transforms.InterpolationMode.BICUBIC,
        )
        shown = ours.reader.source.image.read(picture, luck)
        differences.append(shown.permute(1, 2, 0).int().numpy() - np.asarray(part, dtype=np.int32))
    levels = np.abs(np.stack(differences))
    return {"tokens a text": statistics.mean(lengths), "grey levels apart, mean": levels.mean(), "... at most": levels.max()}


def run_through(batches: Callable[[], Iterable], expected: int) -> None:
    found = sum(1 for _ in batches())
    if found != expected:
        raise SystemExit(f"{found} batches, expected {expected}")


def measure(folder: Path, samples: int, workers: int, random: bool, rounds: int) -> None:
    tokenizer = make_data(folder, samples, SHARDS)
    peer = Peer(folder, tokenizer, workers, random)
    ways = {
        "torchvision": Ours(folder, tokenizer, workers, random, simplejpeg=False),
        "simplejpeg": Ours(folder, tokenizer, workers, random, simplejpeg=True),
        "simplejpeg, scaled": Ours(folder, tokenizer, workers, random, simplejpeg=True, scaled=True),
    }
    pictures = [sample.image for sample in ways["torchvision"].reader.shards]
    print(f"pictures of {statistics.mean(map(len, pictures)) / 1000:.0f} kB")
    for name, ours in ways.items():
        found = compare_outputs(peer, ours, pictures)
        print(f"{name:20} " + ", ".join(f"{key} {value:.2f}" for key, value in found.items()))
        if not ours.scaled and found["... at most"] > 2:
            raise SystemExit("pixels differ by more than rounding, so the times would mean nothing")
    contenders = {"peer": partial(run_through, peer.batches, samples // BATCH)}
    for name, ours in ways.items():
        contenders[name] = partial(run_through, ours.batches, samples // BATCH)
        contenders[f"{name}: decode"] = partial(ours.decode_by_workers, pictures)
    contenders["simplejpeg: normalised"] = partial(run_through, ways["simplejpeg"].normalised, samples // BATCH)
    walls: dict[str, list[float]] = {name: [] for name in contenders}
    seconds = interleave({name: partial(time_wall, walls[name], run) for name, run in contenders.items()}, rounds, cpu_seconds)
    print(f"{workers} workers   CPU ms a sample   less than the peer   share of decoding alone (CPU, wall)")
    for name, spent in seconds.items():
        line = f"{name:24} {statistics.median(spent) / samples * 1000:6.2f}   {ratio(seconds['peer'], spent):6.2f}"
        alone = f"{name}: decode"
        if alone in seconds:
            line += f"   {ratio(seconds[alone], spent):6.2f} {ratio(walls[alone][1:], walls[name][1:]):6.2f}"
        print(line)


def time_wall(times: list[float], run: Callable[[], None]) -> None:
    start = time.perf_counter()
    run()
    times.append(time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200, help="pictures a round, a multiple of 200")
    parser.add_argument("--crop", choices=("centre", "random"), default="centre", help="as in evaluation, or in training")
    parser.add_argument("--workers", type=int, default=0, help="processes that read ahead; 0: the main process reads")
    parser.add_argument(
        "--rounds", type=int, default=21, help="interleaved rounds: many short ones, of which ratios are medians"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments.samples, arguments.workers, arguments.crop == "random", arguments.rounds)


if __name__ == "__main__":
    main()
