"""Code-switched language modelling (ALM): masked language modelling over sentences in which phrases stand in another language.

ALM, Alternating Language Modeling for Cross-Lingual Pre-Training, AAAI 2020, doi:10.1609/aaai.v34i05.6480. The released
code is not to be had. As published are the mixture of inputs, the longest phrase and the greatest share of replaced words; the
paper's counterparts are the most probable ones of a statistical translation system's phrase table. Here they come from
the sentence's own translation, or from a dictionary; whichever it is, how they are drawn is ours.
"""

import logging
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Int, Int64
from torch import Tensor

from ...modalities.batch import Batch, take
from ...modalities.chance import chance, salt, uniform
from ...modalities.dictionary import Dictionary, read_dictionary
from ...modalities.pair import swap_texts
from ...models.encoder import Encoder, States
from .aligned_phrases import find_aligned, match_words
from .dictionary_search import ANY, DictionarySearch
from .halves import readable
from .hiding import Scheme, check_hiding
from .objective import Loss, Objective
from .phrases import Phrases, Words, choose_phrases, find_words, ordinary, windows
from .ranges import check_range
from .replacing import Pool, pool_text, replace_phrases
from .rows import refuse_packed, refuse_single
from .token_prediction import count_hidden, hide_texts, predict_hidden
from .word_weights import check_counts, load_counts, weigh_entries

log = logging.getLogger(__name__)

WHO = "code switching"
LOOKED_AT = 64
"""Sentences of a source in training, of which one at least has a phrase that is replaced; else that is said."""
LONGEST = 512
"""Words of a phrase: no published tower reads longer texts, and every word has room for as many phrases."""
KIND, SWITCH = salt("kind of input"), salt("switch")


class Kinds(NamedTuple):
    """What each row is to be."""

    target: Bool[Tensor, "B"]
    """The translation is read, pure or with phrases of the text in it; else the text."""
    switched: Bool[Tensor, "B"]
    """Phrases are replaced."""


class Switched(NamedTuple):
    """What was read in the end."""

    states: States
    read: Batch


class CodeSwitching(Objective):
    """Cross-entropy over the hidden tokens of sentences, most of which are in two languages.

    Each row is one sentence: by a draw of each sample and epoch the text or its translation, pure or with phrases replaced by
    their counterparts; half of the switched ones have the text as the major side, half the translation. At most `share` of
    the words are replaced, rounded down, so that sentences of three words or less stay pure by default. A row never outgrows
    the encoder's longest text: a phrase that it has no room for is not replaced. A row without translation, alignment or
    dictionary entry is read pure, and one that lacks the side drawn is the other side.

    With `alignments: self` the counterparts are known by reading alone, but what is hidden must be counted before: tokens of
    the sentence are hidden first, and phrases with a hidden token are not replaced. So there the tokens put in are context
    and are never predicted; with the others they are hidden at the same rate as all.
    """

    one_item_a_row = True

    def __init__(
        self,
        alignments: Literal["given", "dictionary", "self"] = "given",
        dictionary: str | None = None,
        layer: int | None = None,
        source: float = 0.1,
        target: float = 0.1,
        share: float = 0.3,
        phrase: int = 4,
        rate: float = 0.15,
        scheme: Scheme = "token",
        keep: float = 0.1,
        random: float = 0.1,
        alpha: float = 0.0,
        counts: str | None = None,
        weight: float = 1.0,
    ):
        """
        Args:
            alignments: How counterparts are known. `given`: by the word alignments of the shards (`interlingua shards align`
                makes them). `dictionary`: words, and phrases that it has, are replaced by one of their translations, drawn;
                into the language of the row's other side, or, in a row without one, into any. `self`: by the encoder as
                it is, as words of the two sides whose states are each other's nearest; an encoder that knows nothing
                yet aligns badly, so start from a trained one (`initial`).
            dictionary: File of `interlingua tokenizer dictionary`; where `alignments` is `dictionary`, and only there.
            layer: Block after which states are compared, where `alignments` is `self`, and only there. None: after two thirds
                of the blocks (ours), that is 8 of 12.
            source: Share of rows that are the text, pure. Published: 0.1.
            target: Share of rows that are the translation, pure. Published: 0.1.
            share: Of a sentence's words that are replaced, at most. Published: 0.3.
            phrase: Longest phrase on either side, in words. Published: 4.
            rate, scheme, keep, random, alpha, counts: As of `MaskedLanguage`, over the switched sentence.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown, out of range, or of use only with another; see `MaskedLanguage`.
        """
        super().__init__(weight)
        _check_options(alignments, dictionary, layer, phrase)
        for name, number in {"source": source, "target": target, "source + target": source + target, "share": share}.items():
            if not 0 <= number <= 1:
                raise ValueError(f"{WHO}: {name} is {number}, but a share lies between 0 and 1")
        self.alignments, self.layer, self.share, self.phrase = alignments, layer, share, phrase
        self.source, self.target, self.path, self.dictionary_path = source, target, counts, dictionary
        self.dictionary, self.search = _open_dictionary(dictionary, phrase)
        self.hiding = check_hiding(WHO, scheme, rate, keep, random)
        self.counts = load_counts(WHO, alpha, counts, scheme)
        weights = None if self.counts is None else weigh_entries(torch.from_numpy(self.counts.counts), alpha)
        self.register_buffer("weights", weights, persistent=False)
        self._warned: set[str] = set()
        self._pure: dict[str, int | None] = {}

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no text, has fewer blocks than `layer`, or another vocabulary than the
                dictionary or the counts.
        """
        self.head, self.vocabulary, self.room = encoder.token_head("text"), encoder.vocabulary, encoder.max_tokens
        check_counts(WHO, self.counts, self.path, self.vocabulary)
        if self.dictionary is not None and len(self.dictionary.punctuation) != self.vocabulary.size:
            raise ValueError(
                f"{WHO}: {self.dictionary_path} is of a vocabulary of {len(self.dictionary.punctuation)} entries, but the "
                f"encoder's has {self.vocabulary.size}; write it with the tokenizer that the encoder is built for"
            )
        if self.alignments == "self":
            self.layer = _check_layer(encoder, self.layer)

    def view(self, batch: Batch) -> Batch:
        """The batch with the switched sentence as `text`, and no `translation`. With `alignments: self` the sentence as
        it is, and the other side as `translation`, which is read for its counterparts alone.

        Raises:
            ValueError: The source reads no text or, but for a dictionary, no translation; rows are packed or marked.
        """
        _check_rows(batch, self.alignments)
        own = self._lead(batch)
        if self.alignments == "self":
            return own._replace(alignment=None)
        phrases, words, pool = self._look_up(own) if self.alignments == "dictionary" else self._align(own, own.alignment)
        return self._switch(own, phrases, words, pool)._replace(translation=None, alignment=None)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        return hide_texts(view, ("text",), self.key, self.hiding, self.vocabulary, self.weights)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return count_hidden(marked, ("text",))

    def read(self, encoder: Encoder, marked: Batch) -> Switched:
        """One reading; with `alignments: self` one of both sides before it, without gradient."""
        if self.alignments == "self":
            marked = self._switch_by_states(encoder, marked)
        return Switched(encoder(marked), marked)

    def loss(self, states: Switched, marked: Batch) -> Loss:
        return predict_hidden(self.head, states.states, states.read, ("text",))

    def _kinds(self, batch: Batch) -> Kinds:
        draw = uniform(self.key, salt(batch.source), batch.epoch, batch.sample, KIND)
        pure = self.source + self.target
        target = (draw >= self.source) & (draw < pure) | (draw >= (1 + pure) / 2)
        return Kinds(target, draw >= pure)

    def _lead(self, batch: Batch) -> Batch:
        """The batch with the side that is read as `text`, the other one as `translation`, and the alignment turned with
        them."""
        if batch.translation is None:
            return batch
        self._warn(batch)
        swapped = self._kinds(batch).target & readable(batch.translation) | ~readable(batch.text)
        text, translation = swap_texts(batch.text, batch.translation, swapped)
        links = batch.alignment
        if links is not None:
            links = torch.where(swapped[:, None, None], links.flip(2), links)
        return batch._replace(text=text, translation=translation, alignment=links)

    def _align(self, own: Batch, links: Int[Tensor, "B A 2"] | None) -> tuple[Phrases, Words, Pool]:
        if links is None:
            links = own.item.new_zeros(own.size, 0, 2)
        words, others = find_words(own.text), find_words(own.translation)
        width = own.translation.tokens.shape[1]
        return find_aligned(links, words, others, self.phrase, width), words, pool_text(own.translation)

    def _look_up(self, own: Batch) -> tuple[Phrases, Words, Pool]:
        wanted, other = torch.full_like(own.item, ANY), own.translation
        if other is not None:
            wanted = torch.where(readable(other), other.language.masked_fill(~other.present, ANY).amax(1), wanted)
        words = self.search.find_words(own.text)
        return self.search.search(own.text, words, wanted, self._seed(own)), words, self.search.pool

    def _switch(self, own: Batch, phrases: Phrases, words: Words, pool: Pool) -> Batch:
        """The batch with phrases of the rows that are to be switched replaced."""
        switched = self._kinds(own).switched
        phrases = phrases._replace(valid=phrases.valid & switched[:, None, None])
        room = self.room - own.text.present.sum(1)
        chosen = choose_phrases(phrases, words, self.share, room, self._seed(own))
        self._watch(own, len(chosen.row))
        return own._replace(text=replace_phrases(own.text, chosen, pool, self.vocabulary.pad))

    def _switch_by_states(self, encoder: Encoder, marked: Batch) -> Batch:
        rows = (self._kinds(marked).switched & readable(marked.text) & readable(marked.translation)).nonzero()[:, 0]
        words, others = find_words(marked.text), find_words(marked.translation)
        links = torch.full((marked.size, words.first.shape[1], 2), -1, dtype=torch.int64, device=rows.device)
        if len(rows):
            found = match_words(encoder, take(marked, rows), self.layer, take(words, rows), take(others, rows))
            links = links.index_copy(0, rows, found)
        phrases, words, pool = self._align(marked, links)
        hidden = torch.zeros_like(words.first).scatter_reduce(
            1, marked.text.word.clamp_min(0), (marked.text.hidden & ordinary(marked.text)).long(), "amax"
        )
        seen = windows(hidden, self.phrase, 0).cummax(2).values == 0
        switched = self._switch(marked, phrases._replace(valid=phrases.valid & seen), words, pool)
        return switched._replace(translation=None)

    def _seed(self, batch: Batch) -> Int64[Tensor, "B"]:
        return chance(self.key, salt(batch.source), batch.epoch, batch.sample, SWITCH)

    def _warn(self, batch: Batch) -> None:
        """Say once for each source that nothing tells what its words are to be replaced by."""
        if self.alignments != "given" or batch.source in self._warned:
            return
        if batch.alignment is None and bool((readable(batch.text) & readable(batch.translation)).any()):
            self._warned.add(batch.source)
            log.warning(
                "%s: source %s: a micro-batch of pairs has no word alignment, so that its sentences stay in one language; "
                "this is said once. `interlingua shards align` writes shards with alignments; or set alignments to dictionary "
                "or self",
                WHO,
                batch.source,
            )

    def _watch(self, own: Batch, replaced: int) -> None:
        """Say once for each source that is trained on that nothing of its first sentences was replaced."""
        pure = self._pure.get(own.source, 0)
        if pure is None or not self.training or self.source + self.target >= 1 or not self.share:
            return
        pure = self._pure[own.source] = None if replaced else pure + own.size
        if pure is None or pure < LOOKED_AT:
            return
        self._pure[own.source] = None
        if own.source not in self._warned:
            where = {"dictionary": f"in {self.dictionary_path}", "given": "aligned", "self": "aligned by its states"}
            log.warning(
                "%s: source %s: no phrase of its first %d sentences that could be replaced is %s, so that all of them stay in "
                "one language, as in masked language modelling. Are its languages those of the dictionary or the alignments, "
                "and its sentences long enough (share: %g of the words of each, rounded down)?",
                *(WHO, own.source, pure, where[self.alignments], self.share),
            )


def _open_dictionary(path: str | None, phrase: int) -> tuple[Dictionary | None, DictionarySearch | None]:
    """The dictionary, and what looks words up in it.

    Raises:
        FileNotFoundError, ValueError: It cannot be read, or nothing in it is short enough.
    """
    if path is None:
        return None, None
    found = read_dictionary(path)
    search = DictionarySearch(found, phrase)
    if not len(search.keys):
        raise ValueError(f"{WHO}: no translation in {path} has {phrase} words or fewer, as `phrase` allows; set it higher")
    return found, search


def _check_options(alignments: str, dictionary: str | None, layer: int | None, phrase: int) -> None:
    if alignments not in ("given", "dictionary", "self"):
        raise ValueError(f"{WHO}: alignments is {alignments!r}, expected given, dictionary or self")
    if (alignments == "dictionary") != (dictionary is not None):
        raise ValueError(
            f"{WHO}: alignments is {alignments}, but dictionary is {dictionary}; a file of `interlingua tokenizer dictionary` "
            "goes with alignments: dictionary, and with nothing else"
        )
    if layer is not None and (alignments != "self" or layer < 0):
        raise ValueError(f"{WHO}: layer is {layer} and alignments is {alignments}; expected 0 or more, with alignments: self")
    check_range(WHO, "phrase", phrase, 1, LONGEST, " words")


def _check_layer(encoder: Encoder, layer: int | None) -> int:
    """The block whose states are compared."""
    if layer is None and encoder.layers is None:
        raise ValueError(f"{WHO}: how many blocks {type(encoder).__name__} has is not known; set layer")
    layer = round(2 * encoder.layers / 3) if layer is None else layer
    if encoder.layers is not None and layer > encoder.layers:
        raise ValueError(
            f"{WHO}: layer is {layer}, but {type(encoder).__name__} has {encoder.layers} blocks; "
            f"set layer to 0 (before the first) to {encoder.layers} (after the last)"
        )
    return layer


def _check_rows(batch: Batch, alignments: str) -> None:
    if alignments != "dictionary":
        refuse_single(batch, WHO)
    if batch.text is None:
        raise ValueError(f"{WHO}: source {batch.source!r} has no text; let it read one (`text: {{}}`)")
    refuse_packed(batch, WHO)
    for text in (batch.text, batch.translation):
        if text is not None and (text.shown is not None or text.hidden is not None):
            raise ValueError(f"{WHO}: a text is marked already; switch first (`view`), then mark")
