"""Back-translation masked language modelling (BTMLM): put a text into another language, then read its hidden tokens off the
rest of it and that pseudo-translation. ERNIE-M, arXiv:2012.15674, section 3.

Neither the paper's code nor its numbers for this objective were released: length, language and choice of the pseudo-translation
are options, whose defaults are ours.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Float64, Int, Int64
from torch import Tensor

from ...modalities.batch import Batch, Text, number_positions
from ...modalities.chance import pick, salt, uniform
from ...models.encoder import Encoder, States
from .cross_attention_language import across_halves
from .halves import Joining, check_pair
from .hiding import Scheme, check_hiding
from .objective import Loss, Objective
from .ranges import COLDEST, HOTTEST, check_range
from .rows import refuse_packed
from .token_prediction import count_hidden, hide_texts, predict_hidden

LANGUAGE, FILL = salt("language"), salt("fill")
WHO = "back-translation language"
MOST_RATIO = 4.0
SCORES = 2**24
"""Scores of vocabulary entries that are held at once."""


class BackTranslationLanguage(Objective):
    """Cross-entropy of the hidden tokens of a text, given what is left to see of it and a translation that the encoder made up.

    Mask tokens stand behind the text as a second half. The encoder fills them all in one reading, as it learns to do by
    `CrossAttentionLanguage`, from the whole text: as it is, without gradient and without dropout. Then both halves are read,
    the text with tokens hidden. What a row is filled with depends on that row alone. A tower without language vectors is not
    told which language to fill in.
    """

    one_item_a_row = True
    single = True

    def __init__(
        self,
        ratio: float = 1.0,
        languages: Sequence[int] | None = None,
        temperature: float = 0.0,
        pair: str = "ernie-m",
        max_tokens: int | None = None,
        rate: float = 0.15,
        scheme: Scheme = "token",
        keep: float = 0.1,
        random: float = 0.1,
        weight: float = 1.0,
    ):
        """
        Args:
            ratio: Length of the pseudo-translation in pieces of the text's own length, one piece at least: from a quarter to
                four times, between which real translations lie, too. Ours; in the paper it is about as long as the text (1).
            languages: Ids (places in the tokenizer's list) of the languages to translate into, of towers with language vectors:
                each sample and epoch draws one of them other than the text's own. None: all that the tower knows.
            temperature: 0: the entry with the highest score fills a place (ours); above: an entry drawn by the softmax of the
                scores divided by it. Control tokens never do.
            pair: Form of the row, one of `PAIR_FORMS`.
            max_tokens: Longest row; in a longer one the longer half loses pieces first. None: the encoder's longest text,
                or twice that where positions restart. A half is never longer than the encoder's longest text.
            rate, scheme, keep, random: As of `MaskedLanguage`, over the text. The paper states none of them; the defaults
                are BERT's.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown or out of range; see `MaskedLanguage`.
        """
        super().__init__(weight)
        hint = " times the text's own length; a translation is about as long as its text (1)"
        check_range(WHO, "ratio", ratio, 1 / MOST_RATIO, MOST_RATIO, hint)
        if temperature != 0:
            check_range(WHO, "temperature", temperature, COLDEST, HOTTEST, ", or 0 (the best entry)")
        check_pair(pair, max_tokens, WHO)
        self.ratio, self.languages, self.temperature = ratio, languages, temperature
        self.pair, self.max_tokens = pair, max_tokens
        self.hiding = check_hiding(WHO, scheme, rate, keep, random)

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no text, none as long as `max_tokens`, too short ones for a pair, or does not know
                the languages, two at least.
        """
        self.head, self.vocabulary = encoder.token_head("text"), encoder.vocabulary
        self.joining = Joining.of(encoder, self.pair, WHO, self.max_tokens)
        ids = _language_ids(self.languages, encoder.languages)
        self.register_buffer("targets", None if ids is None else torch.tensor(ids), persistent=False)

    def view(self, batch: Batch) -> Batch:
        """The batch with mask tokens joined to the text, as a second half in the language drawn.

        Raises:
            ValueError: The source reads no text, or a translation, or rows are packed.
        """
        if batch.text is None or batch.translation is not None:
            found = "no text" if batch.text is None else "a translation"
            raise ValueError(
                f"{WHO} makes up a translation of single texts, but source {batch.source!r} reads {found}; give it a source of "
                "texts alone (`text: {}`), and translations to cross-attention language"
            )
        refuse_packed(batch, WHO)
        return self.joining.join_halves(batch, batch.text, self._places(batch))

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        text = view.text
        first = text._replace(word=text.word.masked_fill(places(text), -1))  # what is no word is not hidden
        marked = hide_texts(view._replace(text=first), ("text",), self.key, self.hiding, self.vocabulary, None)
        return marked._replace(text=marked.text._replace(word=text.word))

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return count_hidden(marked, ("text",))

    def read(self, encoder: Encoder, marked: Batch) -> States:
        """Two readings: one that fills the places, one of the filled rows."""
        return encoder(self.fill(encoder, marked))

    def loss(self, states: States, marked: Batch) -> Loss:
        return predict_hidden(self.head, states, marked, ("text",))

    @torch.no_grad()
    def fill(self, encoder: Encoder, marked: Batch) -> Batch:
        """The batch with a pseudo-translation shown in place of the mask tokens.

        Args:
            encoder: Its mode and all random generators are left as they are.
            marked: What `mark` gives; the text is translated as it is, whatever is hidden of it.
        """
        text, wanted = marked.text, places(marked.text)
        seed = (self.key, salt(marked.source), marked.epoch[:, None], marked.sample[:, None])
        draw = uniform(*seed, FILL, number_positions(text.present))[wanted]
        with _asleep(encoder):
            whole = marked._replace(text=text._replace(shown=None, hidden=wanted))
            states = encoder(whole, allow=across_halves).text[wanted]
        parts = max(1, SCORES // self.vocabulary.size)
        found = [self._choose(*part) for part in zip(states.split(parts), draw.split(parts), strict=True)]
        torch.clear_autocast_cache()  # weights cast without gradient must not serve the second reading
        shown = text.read.index_put(wanted.nonzero(as_tuple=True), torch.cat(found).to(text.tokens.dtype))
        return marked._replace(text=text._replace(shown=shown))

    def _choose(self, states: Float[Tensor, "N D"], draw: Float64[Tensor, "N"]) -> Int64[Tensor, "N"]:
        """A vocabulary entry for each place."""
        scores = self.head(states).double().index_fill(1, self._controls(states), -torch.inf)
        if not self.temperature:
            return scores.argmax(1)
        shares = (scores / self.temperature).softmax(1).cumsum(1)
        entry = torch.searchsorted(shares, draw[:, None] * shares[:, -1:], right=True)[:, 0]
        return entry.clamp_max(self.vocabulary.size - 1)  # beyond it where the product is rounded up

    def _controls(self, states: Tensor) -> Int64[Tensor, "C"]:
        return torch.tensor(self.vocabulary.controls, device=states.device)

    def _places(self, batch: Batch) -> Text:
        """Mask tokens for each text, as a text of their own."""
        text = batch.text
        pieces = (text.present & (text.word >= 0)).sum(1)
        count = torch.where(pieces > 0, (pieces * self.ratio).round().long().clamp_min(1), 0)
        length = torch.where(count > 0, count + 2, 0)[:, None]
        slot = torch.arange(max(1, int(length.max())) if len(length) else 1, device=length.device).expand(len(length), -1)
        present, inside = slot < length, (slot > 0) & (slot < length - 1)
        language = self._languages(batch)[:, None].expand_as(slot)
        tokens = torch.where(inside, self.vocabulary.mask, torch.where(slot == 0, self.vocabulary.start, self.vocabulary.end))
        zeros = torch.zeros_like(slot)
        return Text(
            tokens=tokens.masked_fill(~present, self.vocabulary.pad),
            present=present,
            language=language,
            word=torch.where(inside, slot - 1, -1),
            segment=zeros,
            document=zeros,
            position=slot,
        )

    def _languages(self, batch: Batch) -> Int[Tensor, "B"]:
        """Language of each pseudo-translation: one other than the text's own, or that one where the tower reads none."""
        own = batch.text.language.masked_fill(~batch.text.present, 0).amax(1)
        if self.targets is None:
            return own
        known = self.targets == own[:, None]  # [B, targets]
        among = len(self.targets) - known.sum(1)
        draw = pick(among, self.key, salt(batch.source), batch.epoch, batch.sample, LANGUAGE)
        return self.targets[draw + (known.any(1) & (draw >= known.int().argmax(1)))]  # those from its own on move up by one


def places(text: Text) -> Bool[Tensor, "B L"]:
    """Where a row is to be filled: the pieces of its second half."""
    return text.present & (text.segment == 1) & (text.word >= 0)


def _language_ids(languages: Sequence[int] | None, known: int) -> list[int] | None:
    """Ids of the languages to translate into, None where the tower reads none."""
    if not known:
        if languages is not None:
            raise ValueError(
                f"{WHO}: languages is {list(languages)}, but the encoder has no language vectors to be told one by; "
                "leave it out, or use a tower that has them (`presets.xlm`)"
            )
        return None
    ids = sorted(set(range(known) if languages is None else languages))
    if len(ids) < 2 or not 0 <= ids[0] <= ids[-1] < known:
        raise ValueError(
            f"{WHO}: languages is {ids}; expected two at least, so that each text has another, from 0 to {known - 1}, as the "
            "encoder knows them"
        )
    return ids


@contextmanager
def _asleep(encoder: Encoder) -> Iterator[None]:
    """The encoder in evaluation mode, and each of its modules back in its own mode afterwards."""
    awake = [module for module in encoder.modules() if module.training]
    for module in awake:
        module.training = False
    try:
        yield
    finally:
        for module in awake:
            module.training = True
