"""Translation probabilities of words, learnt from parallel text alone, by expectation maximisation.

IBM model 1 with an empty word (Brown et al. 1993, section 4.4), then with the diagonal prior of fast_align (Dyer et al.
2013, section 2): words prefer partners that stand near the same share of their sentence. Both directions are learnt side by
side. In the later rounds they must agree: a link counts as much as the product of what the two believe (Liang et al. 2006,
section 3.2). The order of sentences and the parts that they are worked on in change nothing but the last digits.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .bitext import CHUNK_LINKS, Bitext, Links, Side, chunk, link
from .symmetrize import METHODS, Pair, symmetrize

EMPTY = 0.08
"""Prior probability that a word translates no word, as in fast_align."""
TENSION, LEAST_TENSION, MOST_TENSION = 4.0, 0.1, 20.0
"""Of the diagonal prior: at first, and its bounds."""
FLOOR = 1e-12
"""Probability of a pair of words that never stood in one sentence pair."""

Watch = Callable[[Sequence, str], Iterator]
"""Shows how far a loop is: given the elements and what is done, gives the elements, as `shards.progress.track` does."""


class Direction(NamedTuple):
    """One direction: words of one side arise from words of the other, or from the empty word."""

    table: np.ndarray
    """float64 `[P]`: for each pair of types, the probability of the one that arises, given the other."""
    empty: np.ndarray
    """float64 `[V]`: probability of each type, given the empty word."""
    tension: float
    """How strongly words prefer the diagonal: the prior falls by e for each 1 / tension of a sentence; 0: not at all."""


class Model(NamedTuple):
    """What was learnt. Pairs of types are those that stand in some sentence pair."""

    source_words: list[str]
    target_words: list[str]
    pairs: np.ndarray
    """int64 `[P]`, ascending: source type x 2^32 + target type."""
    forward: Direction
    """Target words arise from source words."""
    backward: Direction
    """Source words arise from target words."""

    def translate(self, word: str, count: int = 1) -> list[tuple[str, float]]:
        """The likeliest translations of a source word, and the probability of each, given that word.

        Args:
            word: As `bitext.fold` gives it.
            count: How many, at most.
        """
        if word not in self.source_words:
            return []
        number = self.source_words.index(word)
        first, last = np.searchsorted(self.pairs, [number << 32, number + 1 << 32])
        score = self.forward.table[first:last]
        best = np.argsort(-score, kind="stable")[:count]
        return [(self.target_words[self.pairs[first + place] & 0xFFFFFFFF], float(score[place])) for place in best]


class Belief(NamedTuple):
    """Posterior of one direction for every link of some sentence pairs."""

    links: np.ndarray
    """float64 `[K]`: that the word arises from the other."""
    empty: np.ndarray
    """float64 `[W]`: that the word arises from the empty word; 0 in sentence pairs without links."""
    prior: np.ndarray
    """float64 `[K]`: what position alone says, the empty word left aside."""
    surprise: float
    """Minus the log likelihood of all words."""


class _Counts:
    """Expected counts of one direction, summed over the corpus."""

    def __init__(self, before: Direction):
        self.table, self.empty = np.zeros_like(before.table), np.zeros_like(before.empty)
        self.tension, self.slope, self.bend = before.tension, 0.0, 0.0

    def add(self, known: np.ndarray, pair: np.ndarray, side: Side, belief: Belief, share: np.ndarray) -> None:
        """Take in one part.

        Args:
            known: Pairs of types that it has.
            pair: Of which of these each link is.
            side: Whose words arise.
            belief: In its links.
            share: How much each link counts.
        """
        word, types, distance = side
        self.table[known] += np.bincount(pair, share, len(known))
        self.empty += np.bincount(types, belief.empty, len(self.empty))
        if self.tension:
            lean = belief.prior * distance
            count, mean, square = (np.bincount(word, one, len(types)) for one in (share, lean, lean * distance))
            self.slope += float(count @ mean - share @ distance)  # of the log likelihood, by the tension
            self.bend += float(count @ (square - mean * mean))

    def maximise(self, given: np.ndarray) -> Direction:
        """Probabilities that make the counts most likely; the tension takes one step of Newton's method.

        Args:
            given: Type that the other arises from, of each pair.
        """
        total = np.bincount(given, self.table)[given]
        table = np.divide(self.table, total, out=np.zeros_like(total), where=total > 0)
        tension = self.tension and self.tension + self.slope / max(self.bend, 1e-9)
        tension = tension and float(np.clip(tension, LEAST_TENSION, MOST_TENSION))
        return Direction(table, self.empty / max(self.empty.sum(), 1e-300), tension)


def train(
    bitext: Bitext, plain: int = 4, agreeing: int = 5, watch: Watch = lambda parts, _: iter(parts), links: int = CHUNK_LINKS
) -> Model:
    """Learn which words translate which.

    Args:
        bitext: Sentences and their translations.
        plain: Rounds of IBM model 1, each direction for itself.
        agreeing: Rounds with the diagonal prior, in which the directions must agree.
        watch: Shows how far it is.
        links: Pairs of words that are worked on at a time.
    """
    bounds = list(chunk(bitext, links))
    pairs, parts = _find_pairs(bitext, bounds)
    sources, targets = pairs >> 32, pairs & 0xFFFFFFFF
    sizes = len(bitext.target.words), len(bitext.source.words)
    forward, backward = (Direction(np.full(len(pairs), 1 / size), np.full(size, 1 / size), 0.0) for size in sizes)
    for number in range(plain + agreeing):
        if number == plain:
            forward, backward = forward._replace(tension=TENSION), backward._replace(tension=TENSION)
        one, other = _Counts(forward), _Counts(backward)
        for (first, last), known, pair in watch(parts, f"learning words, round {number + 1} of {plain + agreeing}"):
            sides = link(bitext, first, last).sides()
            beliefs = [
                believe(direction, direction.table[known][pair], side)
                for direction, side in zip((forward, backward), sides, strict=True)
            ]
            shares = [belief.links for belief in beliefs]
            if number >= plain:
                shares = [shares[0] * shares[1]] * 2
            for counts, side, belief, share in zip((one, other), sides, beliefs, shares, strict=True):
                counts.add(known, pair, side, belief, share)
        forward, backward = one.maximise(sources), other.maximise(targets)
    return Model(bitext.source.words, bitext.target.words, pairs, forward, backward)


def believe(direction: Direction, table: np.ndarray, side: Side) -> Belief:
    """Posterior of links.

    Args:
        direction: What is known.
        table: Its probability of the pair of types, of each link `[K]`.
        side: Whose words arise.
    """
    word, types, distance = side
    lean = np.exp(-direction.tension * distance) if direction.tension else np.ones(len(word))
    whole = np.bincount(word, lean, len(types))
    prior = lean / whole[word]
    joint = (1 - EMPTY) * prior * table
    empty = EMPTY * direction.empty[types] * (whole > 0)
    total = np.bincount(word, joint, len(types)) + empty
    total[total == 0] = 1
    return Belief(joint / total[word], empty / total, prior, -float(np.log(total).sum()))


def align(
    bitext: Bitext, model: Model, method: str = METHODS[0], watch: Watch = lambda parts, _: iter(parts)
) -> Iterator[list[Pair]]:
    """The likeliest links of each sentence pair, made one set.

    Args:
        bitext: Its types are numbered as the model's (`number_types` with the model's words as known); words and pairs
            that the model has not seen may be there.
        model: What was learnt.
        method: See `symmetrize`.
        watch: Shows how far it is.
    """
    for first, last in watch(list(chunk(bitext)), "linking words"):
        links = link(bitext, first, last)
        keys = links.source_types[links.source].astype(np.int64) << 32 | links.target_types[links.target]
        place = np.minimum(np.searchsorted(model.pairs, keys), len(model.pairs) - 1)
        known = model.pairs[place] == keys
        best = []
        others = links.source, links.target
        for direction, side, other in zip((model.forward, model.backward), links.sides(), others, strict=True):
            table = np.where(known, np.maximum(direction.table[place], FLOOR), FLOOR)
            empty = np.full(max(len(direction.empty), side.types.max(initial=0) + 1), FLOOR)
            empty[: len(direction.empty)] = direction.empty
            best.append(_choose(believe(direction._replace(empty=empty), table, side), side.word, other))
        yield from _cut(bitext, first, last, best, method)


def _choose(belief: Belief, word: np.ndarray, other: np.ndarray) -> np.ndarray:
    """For each word that arises the likeliest other word, the first of equals; -1 where the empty word is likelier."""
    most = belief.empty.copy()
    np.maximum.at(most, word, belief.links)
    best = np.full(len(most), -1, np.int64)
    candidates = np.flatnonzero((belief.links == most[word]) & (belief.links > belief.empty[word]))[::-1]
    best[word[candidates]] = other[candidates]  # the last that is written is the first of equals
    return best


def _cut(bitext: Bitext, first: int, last: int, best: list[np.ndarray], method: str) -> Iterator[list[Pair]]:
    """Links of each sentence pair, out of those of neighbouring pairs."""
    (_, source_start, _), (_, target_start, _) = bitext
    for pair in range(first, last):
        source = slice(*(source_start[pair : pair + 2] - source_start[first]).tolist())
        target = slice(*(target_start[pair : pair + 2] - target_start[first]).tolist())
        forward, backward = best[0][target], best[1][source]
        forward = np.where(forward >= 0, forward - source.start, -1).tolist()
        backward = np.where(backward >= 0, backward - target.start, -1).tolist()
        yield symmetrize(forward, backward, method)


def _find_pairs(bitext: Bitext, bounds: Sequence[tuple[int, int]]) -> tuple[np.ndarray, list[tuple]]:
    """All pairs of types; and for each part its bounds, the numbers of its pairs, and which of these each link is of."""
    found = []
    for first, last in bounds:
        links: Links = link(bitext, first, last)
        keys = links.source_types[links.source].astype(np.int64) << 32 | links.target_types[links.target]
        own, pair = np.unique(keys, return_inverse=True)
        found.append((own, pair.astype(np.int32)))
    keys = np.sort(np.concatenate([np.zeros(0, np.int64), *(own for own, _ in found)]))
    keys = keys[np.diff(keys, prepend=-1) > 0]
    parts = [(bound, np.searchsorted(keys, own), pair) for bound, (own, pair) in zip(bounds, found, strict=True)]
    return keys, parts
