"""Word alignment: how many words of a lexicon that was never seen are translated rightly, and how fast it is learnt.

    INTERLINGUA_DATA=... python benchmarks/alignments.py
    INTERLINGUA_DATA=... python benchmarks/alignments.py --languages de zh

For each language the aligner learns from the training split of the parallel text alone (6,000 to 11,000 sentence pairs);
then each English word of the lexicon is translated by the likeliest word of the table. Scored are words that are one word
in English and in the other language (in Chinese, where every character is a word: whose characters hold the answer), both
of which stand in some sentence pair together. Beside it, on the same words: IBM model 1 alone with as many rounds,
co-occurrence (Dice), an untranslated copy, and chance among the words that stand in a sentence pair with it.
"""

import argparse
import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from interlingua.datamodules.align.bitext import Bitext, Half, fold, number_types
from interlingua.datamodules.align.model import Model, align, train
from interlingua.datamodules.align.words import split_words

LANGUAGES = ("de", "fr", "es", "ru", "it", "nl", "pl", "sv", "fi", "zh")
LEXICON = {"zh": "zh_CN"}
"""Codes that the lexicon spells otherwise."""


def read_lines(file: Path) -> Iterator[dict]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read_bitext(data: Path, language: str) -> Bitext:
    """English and its translations, the training split."""
    rows = [row for row in read_lines(data / "parallel.jsonl.gz") if row["tgt_lang"] == language and row["split"] == "train"]
    rows = [row for row in rows if row["src_lang"] == "en"]
    return Bitext(*(number_types(split_words([row[side] for row in rows])) for side in ("src", "tgt")))


def read_gold(data: Path, language: str) -> dict[str, set[str]]:
    """Translations of each English word that is one word."""
    code = LEXICON.get(language, language)
    rows = [row["words"] for row in read_lines(data / "lexicon.jsonl.gz") if code in row["words"]]
    gold: dict[str, set[str]] = {}
    pairs = zip(*(split_words([row[side] for row in rows]) for side in ("en", code)), strict=True)
    for english, other in pairs:
        if len(english) == 1 and (len(other) == 1 or language == "zh"):
            gold.setdefault(fold(english[0]), set()).update(map(fold, other))
    return gold


def sentences_of(half: Half) -> np.ndarray:
    """Sentence and type of each type of each sentence, `[2, N]`."""
    keys = np.repeat(np.arange(len(half.start) - 1), half.counts) << 32 | half.types
    return np.stack(np.divmod(np.array(sorted({*keys.tolist()})), 1 << 32))


def count_dice(bitext: Bitext, sources: Sequence[int]) -> list[str]:
    """For each source type the target type that shares its sentences best."""
    left, right = map(sentences_of, bitext)
    everywhere = np.bincount(right[1], minlength=len(bitext.target.words))
    best = []
    for source in sources:
        sentences = left[0][left[1] == source]
        here = np.bincount(right[1][np.isin(right[0], sentences)], minlength=len(everywhere))
        best.append(bitext.target.words[int(np.argmax(2 * here / (len(sentences) + everywhere)))])
    return best


def score(bitext: Bitext, gold: dict[str, set[str]], model: Model, plain: Model) -> Counter[str]:
    """How many words each way gets right."""
    numbers = [{word: number for number, word in enumerate(half.words)} for half in bitext]
    together = {
        word: set(model.pairs[slice(*np.searchsorted(model.pairs, [numbers[0][word] << 32, numbers[0][word] + 1 << 32]))])
        for word in gold
        if word in numbers[0]
    }
    right = {
        word: {numbers[0][word] << 32 | numbers[1][other] for other in gold[word] if other in numbers[1]} & together[word]
        for word in together
    }
    words = [word for word in together if right[word]]
    found: Counter[str] = Counter(words=len(words))
    for word, counted in zip(words, count_dice(bitext, [numbers[0][word] for word in words]), strict=True):
        found["aligner"] += model.translate(word)[0][0] in gold[word]
        found["IBM 1"] += plain.translate(word)[0][0] in gold[word]
        found["Dice"] += counted in gold[word]
        found["copy"] += word in gold[word]
        found["chance"] += len(right[word]) / len(together[word])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, metavar="CODE")
    data, total = Path(os.environ["INTERLINGUA_DATA"]), Counter()
    columns = ("words", "aligner", "IBM 1", "Dice", "copy", "chance")
    print("      pairs  pairs/s", *(f"{name:>8}" for name in columns))
    for language in parser.parse_args().languages:
        bitext = read_bitext(data, language)
        start = time.process_time()
        model = train(bitext)
        pairs = sum(1 for _ in align(bitext, model))
        speed = pairs / (time.process_time() - start)
        found = score(bitext, read_gold(data, language), model, train(bitext, plain=9, agreeing=0))
        total += found
        print(f"{language:4} {pairs:6,} {speed:8,.0f}", *(f"{found[name]:8.0f}" for name in columns), flush=True)
    print("all               ", *(f"{total[name]:8.0f}" for name in columns))
    print("share             ", *(f"{total[name] / total['words']:8.1%}" for name in columns))


if __name__ == "__main__":
    main()
