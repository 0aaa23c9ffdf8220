"""Aligned translations, an objective of code switching over a real tower, and switching in plain Python."""

import tiny
import torch

from interlingua.modalities.chance import uniform
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.code_switching import CodeSwitching
from interlingua.tasks.objectives.phrases import LENGTH, TURN

LENGTHS, OTHERS = (9, 14, 22, 5, 2, 12), (11, 12, 20, 7, 6, 2)
"""The last two have a side without words."""


def draw_text(sizes, language, seed, left=False, padded=None):
    """Texts whose words have the given numbers of pieces: row by row, a list of sizes."""
    lengths = [sum(row) + 2 for row in sizes]
    text = tiny.text(lengths, padded, left, seed, language=language)
    word = text.word.clone()
    for row, one in enumerate(sizes):
        inside = text.word[row] >= 0
        word[row, inside] = torch.repeat_interleave(torch.arange(len(one)), torch.tensor(one, dtype=torch.long))
    return text._replace(word=word)


def draw_sizes(lengths, generator):
    """Words of one to three pieces that fill texts of the given lengths."""
    sizes = []
    for length in lengths:
        rest, row = length - 2, []
        while rest > 0:
            row.append(min(rest, int(torch.randint(1, 4, (), generator=generator))))
            rest -= row[-1]
        sizes.append(row)
    return sizes


def pairs(first=LENGTHS, second=OTHERS, left=False, padded=None, links=0.7, source="parallel", seed=0, near=True):
    """English and German of some lengths in tokens, and links: of a word with the one at its place or, often, a neighbour."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [draw_sizes(lengths, generator) for lengths in (first, second)]
    text, translation = (draw_text(own, side, seed + side + 1, left, padded) for side, own in enumerate(sizes))
    found = []
    for own, others in zip(*sizes, strict=True):
        row = []
        for word in range(len(own)):
            other = word + (int(torch.randint(-1, 2, (), generator=generator)) if near else 0)
            if 0 <= other < len(others) and torch.rand((), generator=generator) < links:
                row.append((word, other))
        found.append(row)
    alignment = torch.full((len(found), max([1, *map(len, found)]), 2), -1)
    for number, row in enumerate(found):
        alignment[number, : len(row)] = torch.tensor(row, dtype=torch.long).view(-1, 2)
    return tiny.batch(first, source=source)._replace(text=text, translation=translation, alignment=alignment)


def connected(languages=0, max_tokens=64, layers=2, double=False, **options):
    torch.manual_seed(0)
    embeddings = tiny.embeddings(languages=languages, max_tokens=max_tokens)
    encoder, objective = TextTower(embeddings, tiny.transformer(layers=layers)), CodeSwitching(**options)
    objective.connect(encoder)
    return (encoder.double(), objective.double()) if double else (encoder, objective)


def marked_by(objective, batch):
    return objective.mark(objective.view(batch))


def score(encoder, objective, batch):
    marked = marked_by(objective, batch)
    return objective.loss(objective.read(encoder, marked), marked)


def words_of(text, row):
    """Each word of a row: its pieces, as (id, language)."""
    words = {}
    for column in text.present[row].nonzero()[:, 0].tolist():
        number = int(text.word[row, column])
        if number >= 0:
            words.setdefault(number, []).append((int(text.tokens[row, column]), int(text.language[row, column])))
    return [words[number] for number in sorted(words)]


def phrase_pairs(links, words, most):
    """Consistent, tight pairs of phrases by their definition: first and last word on either side."""
    links = [(i, j) for i, j in links if i >= 0]
    found = {}
    for start in range(words):
        for end in range(start, min(start + most, words)):
            inside = [j for i, j in links if start <= i <= end]
            if not inside or not {start, end} <= {i for i, _ in links}:
                continue
            low, high = min(inside), max(inside)
            back = [i for i, j in links if low <= j <= high]
            if high - low < most and min(back) >= start and max(back) <= end:
                found[start, end] = (low, high)
    return found


def choose(found, words, others, seed, share, most, room):
    """What is replaced, by the draws that are made: pairs of first and last word."""
    budget, drawn = int(share * len(words) + 1e-9), {}
    for start in range(len(words)):
        open_to = [end for end in range(start, start + most) if (start, end) in found and end - start < budget]
        if open_to:
            drawn[start] = max(open_to, key=lambda end: float(uniform(seed, LENGTH, start, end - start + 1)))
    turns = {start: float(uniform(seed, TURN, start)) for start in drawn}
    first = [
        start
        for start, end in drawn.items()
        if not any(a <= end and start <= b and turns[a] > turns[start] for a, b in drawn.items() if a != start)
    ]
    taken, used, grown = [], 0, 0
    for start in sorted(first, key=lambda start: -turns[start]):
        end = drawn[start]
        low, high = found[start, end]
        used += end - start + 1
        growth = sum(map(len, others[low : high + 1])) - sum(map(len, words[start : end + 1]))
        grown += max(0, growth)
        if used <= budget and (growth <= 0 or grown <= room):
            taken.append((start, end))
    return taken


def replace(words, others, found, taken):
    """The words with phrases replaced."""
    result, number = [], 0
    ends = dict(taken)
    while number < len(words):
        if number in ends:
            low, high = found[number, ends[number]]
            result += others[low : high + 1]
            number = ends[number] + 1
        else:
            result.append(words[number])
            number += 1
    return result
