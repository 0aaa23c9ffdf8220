"""Contrast of a pair of sentences with words (WCTL): the pair shall be closer to the words that stand in it than to others of
the vocabulary. HICTL, arXiv:2007.15960, section 3, word level.

The paper's code was never published. Ours, where the paper is silent: how many other words there are, and that each is as
likely as any.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ...modalities.batch import Batch, Text
from ...modalities.chance import chance, pick, salt
from ...modalities.vocabulary import Vocabulary
from ...models.encoder import Encoder, States
from ...models.pooling import pool
from ...models.table_gradients import look_up
from ...models.transformer import initialize
from .halves import Joining, check_pair, joined
from .objective import Loss, Objective
from .ranges import check_temperature
from .rows import refuse_packed, refuse_single

WHO = "word contrast"
OTHERS = salt("others")
ROOM = 1 << 22
"""Numbers of word vectors that are held at once; the backward pass looks them up again."""

Similarity = Literal["cosine", "dot"]


class WordContrast(Objective):
    """Cross-entropy of each word of a pair against words that are not in it, a mean over the pair's words.

    Text and translation are joined in one row; its first state, led through a linear layer, is compared with rows of the
    encoder's token table. The pair's words are the distinct pieces that are read, control tokens apart; the others are drawn
    for each sample and epoch. A row in which only one of the texts stands is not scored.
    """

    one_item_a_row = True

    def __init__(
        self,
        pair: str = "xlm-roberta",
        max_tokens: int | None = None,
        others: int = 1024,
        similarity: Similarity = "cosine",
        temperature: float = 1.0,
        weight: float = 1.0,
    ):
        """
        Args:
            pair: Form of the row, one of `PAIR_FORMS`.
            max_tokens: Longest row; in a longer one the longer half loses pieces first. None: the encoder's longest text,
                or twice that where positions restart.
            others: Number of words that each pair's own are told from: drawn one by one from the entries of the vocabulary
                that are neither in the pair nor control tokens, so that one may come twice; fewer than there are such entries.
                Not told in the paper.
            similarity: `cosine`, as the paper has it between sentences, or `dot`, the inner product.
            temperature: What similarities are divided by. The paper's formula has none (1), where cosines can tell a pair's
                words from a thousand others by little; 0.05 to 0.1, ours, learns more.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown or out of its range.
        """
        super().__init__(weight)
        check_pair(pair, max_tokens, WHO)
        if others < 1:
            raise ValueError(f"{WHO}: others is {others}; expected 1 word or more")
        if similarity not in get_args(Similarity):
            raise ValueError(f"{WHO}: similarity is {similarity!r}, expected one of {', '.join(get_args(Similarity))}")
        check_temperature(WHO, temperature)
        self.pair, self.max_tokens, self.others = pair, max_tokens, others
        self.similarity, self.temperature = similarity, temperature

    def connect(self, encoder: Encoder) -> None:
        """Build the linear layer, from the width of states to that of the token table.

        Raises:
            ValueError: The encoder reads no text, none as long as `max_tokens`, or too short ones for a pair, or its vocabulary
                has fewer words than `others`.
        """
        self.joining = Joining.of(encoder, self.pair, WHO, self.max_tokens)
        words = encoder.vocabulary.size - len(encoder.vocabulary.controls)
        if self.others >= words:
            raise ValueError(
                f"{WHO}: others is {self.others}, but the encoder's vocabulary has {words} words beside its control tokens, "
                f"one of which at least is a pair's own; set others to {words - 1} at most"
            )
        self.vocabulary, self._tied = encoder.vocabulary, (encoder.tokens,)  # where the module's registry does not look
        self.projection = nn.Linear(encoder.widths["text"], encoder.tokens.embedding_dim)
        initialize(self.projection)

    def view(self, batch: Batch) -> Batch:
        """The batch with text and translation joined in `text`, and no `translation`; word alignments are left out.

        Raises:
            ValueError: The source reads no translation, or rows are packed.
        """
        refuse_single(batch, WHO)
        refuse_packed(batch, WHO)
        return self.joining.join_halves(batch, batch.text, batch.translation)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return self._scored(marked, bag_of_words(marked.text, self.vocabulary)).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        bag = bag_of_words(marked.text, self.vocabulary)
        rows = self._scored(marked, bag)
        query = self.projection(pool(states.text, marked.text.present, "first")[rows])
        seed = chance(self.key, salt(marked.source), marked.epoch, marked.sample, OTHERS)[rows]
        return Loss(self._compare(query, bag[rows], draw_others(seed, bag[rows], self.vocabulary, self.others)), rows.sum())

    def _scored(self, marked: Batch, bag: Int64[Tensor, "B W"]) -> Bool[Tensor, "B"]:
        """Pairs that have words, and do not have all words."""
        words = (bag < self.vocabulary.size).sum(1)
        rows = joined(marked) & (words > 0) & (words < self.vocabulary.size - len(self.vocabulary.controls))
        return rows if marked.matched is None else rows & marked.matched

    def _compare(self, query: Float[Tensor, "n E"], bag: Int64[Tensor, "n W"], others: Int64[Tensor, "n S"]) -> Tensor:
        """Summed costs of the rows, as many at a time as there is room for; at least in float32."""
        table = self._tied[0].weight
        size = max(1, ROOM // (table.shape[1] * (bag.shape[1] + others.shape[1])))
        with torch.autocast(query.device.type, enabled=False):
            query = query.to(torch.promote_types(query.dtype, torch.float32))
            total = query[:0].sum()
            for part in zip(query.split(size), bag.split(size), others.split(size), strict=True):
                arguments = table, *part, self.similarity == "cosine", self.temperature
                total = total + checkpoint(costs, *arguments, use_reentrant=False, preserve_rng_state=False).sum()
        return total


def bag_of_words(text: Text, vocabulary: Vocabulary) -> Int64[Tensor, "B L"]:
    """The distinct pieces of each row, control tokens apart, ascending; behind them the size of the vocabulary, which is no
    entry."""
    controls = torch.tensor(vocabulary.controls, device=text.tokens.device)
    ordinary = text.present & (text.word >= 0) & ~torch.isin(text.tokens, controls)
    pieces = text.tokens.long().masked_fill(~ordinary, vocabulary.size).sort(1).values
    again = torch.zeros_like(ordinary)
    again[:, 1:] = pieces[:, 1:] == pieces[:, :-1]
    return pieces.masked_fill(again, vocabulary.size).sort(1).values


def draw_others(
    seed: Int64[Tensor, "n"], bag: Int64[Tensor, "n W"], vocabulary: Vocabulary, count: int
) -> Int64[Tensor, "n S"]:
    """Entries that are neither in the row's bag nor control tokens, each as likely as any other.

    Args:
        seed: Random key of each row.
        bag: As `bag_of_words` gives it; there must be other entries.
        vocabulary: Its entries.
        count: Number S of draws, each for itself.
    """
    controls = torch.tensor(vocabulary.controls, device=bag.device).expand(len(bag), -1)
    taken = torch.cat([bag, controls], 1).sort(1).values
    there = taken < vocabulary.size
    free = vocabulary.size - there.sum(1, keepdim=True)
    place = pick(free, seed[:, None], torch.arange(count, device=bag.device))  # among the free entries
    below = taken - torch.arange(taken.shape[1], device=bag.device)  # free entries below each that is taken
    return place + torch.searchsorted(below.masked_fill(~there, vocabulary.size), place, right=True)


def costs(
    table: Float[Tensor, "V E"],
    query: Float[Tensor, "n E"],
    bag: Int64[Tensor, "n W"],
    others: Int64[Tensor, "n S"],
    cosine: bool,
    temperature: float,
) -> Float[Tensor, "n"]:
    """Mean over a row's bag of the cross-entropy of each word against the others.

    Args:
        table: Vectors of the vocabulary's entries.
        query: One vector a row.
        bag: Entries, and V where there is none.
        others: Entries.
        cosine: Whether vectors are brought to length 1.
        temperature: What products are divided by.
    """
    there = bag < len(table)
    words = look_up(table, torch.cat([bag.clamp_max(len(table) - 1), others], 1)).to(query.dtype)
    if cosine:
        words, query = F.normalize(words, dim=2), F.normalize(query, dim=1)
    scores = (words @ query[:, :, None])[:, :, 0] / temperature
    own, other = scores.split([bag.shape[1], others.shape[1]], 1)
    each = torch.logaddexp(other.logsumexp(1, keepdim=True) - own, torch.zeros_like(own))
    return (each * there).sum(1) / there.sum(1)
