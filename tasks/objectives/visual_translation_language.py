"""Visual translation language modelling (VTLM): read the hidden words of a text and its translation off each other and the
picture. UC2, arXiv:2104.00332, section 3.2."""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from ...modalities.batch import Batch, Text
from ...modalities.chance import chance, salt, uniform
from ...models.encoder import Encoder, States
from .halves import Joining, Orders, check_orders, check_pair, order_texts, turned
from .hiding import Hiding, Scheme, check_hiding, hide_tokens
from .objective import Loss, Objective
from .pairs import On
from .ranges import check_choice, check_range
from .rows import refuse_packed, refuse_single
from .token_prediction import count_hidden, predict_hidden, tally_hidden

WHO = "visual translation language"
TOGETHER, LINKED = salt("hide together"), salt("linked words")


class VisualTranslationLanguage(Objective):
    """Masked language modelling over pairs beside their picture, where a hidden word is mostly not told by its translation.

    In a share of the pairs, words are hidden in the first text alone, and with each the words that translate it: they must be
    read off the picture. In the others both texts are hidden as in translation language modelling. Links are those of the
    shards (`interlingua shards align`); a word without one is hidden alone (in UC2's released code its first word is hidden
    for it), and the truth of a word that several links reach is its own piece (there, the mask token where it is hit twice).
    A sample without translation, or without picture, is read as what there is of it.
    """

    one_item_a_row = True
    hides = MappingProxyType({"text": None})

    def __init__(
        self,
        pair: str = "uc2",
        max_tokens: int | None = None,
        orders: Orders = "given",
        together: float = 0.5,
        rate: float = 0.15,
        scheme: Scheme = "token",
        keep: float = 0.1,
        random: float = 0.1,
        on: On = "all",
        weight: float = 1.0,
    ):
        """
        Args:
            pair: Form of the row, one of `PAIR_FORMS`. `uc2`: positions restart with a start token of the second text.
            max_tokens, orders: As of `TranslationLanguage`.
            together: Share of pairs whose aligned words are hidden together, drawn by sample and epoch: 0.5 is UC2's mix.
            rate, scheme, keep, random: As of `MaskedLanguage`, over the pair as one text; where words are hidden together,
                over the first text. All pieces of a word are hidden that a link reaches.
            on: As of `MaskedLanguage`.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown or out of range.
        """
        super().__init__(weight)
        check_pair(pair, max_tokens, WHO)
        check_orders(orders, WHO)
        check_range(WHO, "together", together, 0, 1)
        check_choice(WHO, "on", on, On)
        self.pair, self.max_tokens, self.orders, self.together, self.on = pair, max_tokens, orders, together, on
        self.hiding = check_hiding(WHO, scheme, rate, keep, random)

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no text or no picture, none as long as `max_tokens`, or too short ones for a pair.
        """
        if not {"regions", "image"} & set(encoder.widths):
            raise ValueError(
                f"{WHO} needs an encoder that reads text beside a picture, but {type(encoder).__name__} reads "
                f"{', '.join(encoder.widths)}; use a fused encoder, or `TranslationLanguage`"
            )
        self.head, self.vocabulary = encoder.token_head("text"), encoder.vocabulary
        self.joining = Joining.of(encoder, self.pair, WHO, self.max_tokens)

    def view(self, batch: Batch) -> Batch:
        """The batch with text and translation joined in `text`, no `translation`, and in `alignment` the words of this row
        that translate each other, in the order of the halves.

        Raises:
            ValueError: The source reads no translation or no picture, or rows are packed.
        """
        refuse_single(batch, WHO)
        refuse_packed(batch, WHO)
        if batch.regions is None and batch.image is None:
            raise ValueError(
                f"{WHO}: source {batch.source!r} has no picture; let it read regions or an image, or give it "
                "`TranslationLanguage` instead"
            )
        halves = order_texts(self.orders, batch, batch.text, batch.translation, self.key)
        joined = self.joining.join_halves(batch, *halves)
        if batch.alignment is None:
            return joined
        links = torch.where(turned(self.orders, batch, self.key)[:, None, None], batch.alignment.flip(2), batch.alignment)
        return joined._replace(alignment=link_halves(links, joined.text))

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        seed = chance(self.key, salt(view.source), view.epoch, view.sample)
        links = view.item.new_zeros(view.size, 0, 2) if view.alignment is None else view.alignment
        aligned = (links >= 0).all(2).any(1) & (uniform(seed, TOGETHER) < self.together)
        text = view.text
        lone = torch.where(aligned[:, None] & (text.segment == 1), -1, text.word)  # what is no word is not hidden
        marked = hide_tokens(text._replace(word=lone), seed, self.hiding, self.vocabulary)
        found = linked_words(marked._replace(word=text.word), links) & aligned[:, None]
        every = Hiding("token", 1.0, self.hiding.keep, self.hiding.random)
        more = marked._replace(word=torch.where(found, text.word, -1))
        marked = hide_tokens(more, chance(seed, LINKED), every, self.vocabulary)
        return view._replace(text=marked._replace(word=text.word))

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return count_hidden(marked, ("text",), self.on)

    def loss(self, states: States, marked: Batch) -> Loss:
        return predict_hidden(self.head, states, marked, ("text",), self.on)

    def tally(self, states: States, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        """Of the hidden tokens, how many are told right."""
        return tally_hidden(self.head, states, marked, ("text",), self.on)


def link_halves(links: Int[Tensor, "B A 2"], text: Text) -> Int[Tensor, "B A 2"]:
    """Links between words of two texts as links between words of the row they are joined in, where words of the second are
    numbered on from the first; -1 where a word was cut off, or stands alone.

    Args:
        links: Words of the first text, and of the second.
        text: The row.
    """
    words = text.word.masked_fill(text.segment == 1, -1).amax(1) + 1 if text.word.shape[1] else text.word.sum(1)
    both = (text.present & (text.segment == 1)).any(1)
    first, second = links.unbind(2)
    kept = (first >= 0) & (second >= 0) & (first < words[:, None]) & both[:, None]
    return torch.where(kept[..., None], torch.stack([first, second + words[:, None]], 2), -1)


def linked_words(text: Text, links: Int[Tensor, "B A 2"]) -> Bool[Tensor, "B L"]:
    """Pieces of the words to which a link leads from a word of which a piece is hidden.

    Args:
        text: Marked.
        links: Pairs of words of this row; -1 where there is none.
    """
    there = (links >= 0).all(2)[..., None]
    source, goal = (there & (text.word[:, None] == links[..., side, None]) for side in (0, 1))  # [B, A, L]
    follows = (source & text.hidden[:, None]).any(2, keepdim=True)
    return (follows & goal).any(1)
