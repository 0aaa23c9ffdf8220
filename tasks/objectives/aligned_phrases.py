"""Which phrases of a text and its translation stand for each other, given which words do, or by the encoder's own states.

A phrase and its counterpart are consistent where every link of a word on either side leads to the other side (the phrase
pairs of statistical translation: Och, Tillmann and Ney 1999, aclanthology.org/W99-0604; Koehn, Och and Marcu 2003, N03-1017),
and tight where their first and last words have links. Words between them need none.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from ...modalities.batch import Batch, Text
from ...models.encoder import Encoder
from .phrases import Phrases, Words, ordinary, windows


def find_aligned(links: Int[Tensor, "B A 2"], words: Words, others: Words, most: int, width: int) -> Phrases:
    """Consistent, tight pairs of phrases of at most `most` words on either side.

    Args:
        links: Pairs of words (of the text, of the other); -1 where there is none.
        words: Of the text.
        others: Of the other text.
        most: Longest phrase, in words.
        width: Tokens of a row of the pool that the other text's pieces are in (see `pool_text`).
    """
    sizes = words.first.shape[1], others.first.shape[1]
    i, j = links.unbind(2)
    there = (i >= 0) & (i < words.count[:, None]) & (j >= 0) & (j < others.count[:, None])
    low, high = _reach(i, j, there, sizes[0], sizes[1])
    back_low, back_high = _reach(j, i, there, sizes[1], sizes[0])

    last = windows(high, most, -1)
    low_of, high_of = windows(low, most, sizes[1]).cummin(2).values, last.cummax(2).values  # [B, W, P]
    valid = (high >= 0)[..., None] & (last >= 0) & (high_of - low_of < most)
    steps = torch.arange(most, device=links.device)
    reached = low_of[..., None] + steps  # [B, W, P, P]: words of the counterpart
    inside, at = reached <= high_of[..., None], reached.clamp_max(sizes[1] - 1).flatten(1)
    start = torch.arange(sizes[0], device=links.device)[:, None]
    from_low = back_low.gather(1, at).view_as(reached).masked_fill(~inside, sizes[0]).amin(3)
    from_high = back_high.gather(1, at).view_as(reached).masked_fill(~inside, -1).amax(3)
    valid = valid & (from_low >= start) & (from_high <= start + steps)

    base = (torch.arange(len(links), device=links.device) * width)[:, None, None]
    begin = others.first.gather(1, low_of.clamp_max(sizes[1] - 1).flatten(1)).view_as(low_of)
    stop = others.end.gather(1, high_of.clamp_min(0).flatten(1)).view_as(high_of)
    return Phrases(valid, base + begin, base + stop)


def _reach(
    index: Int[Tensor, "B A"], value: Int[Tensor, "B A"], there: Bool[Tensor, "B A"], size: int, beyond: int
) -> tuple[Int[Tensor, "B W"], Int[Tensor, "B W"]]:
    """First and last word that each word is linked with; `beyond` and -1 where with none."""
    index = torch.where(there, index, size)
    low = value.new_full((len(value), size + 1), beyond).scatter_reduce(1, index, value, "amin")
    high = value.new_full((len(value), size + 1), -1).scatter_reduce(1, index, value, "amax")
    return low[:, :size], high[:, :size]


@torch.no_grad()
def match_words(encoder: Encoder, batch: Batch, layer: int, words: Words, others: Words) -> Int[Tensor, "B W 2"]:
    """Links between words that are each other's best match, by the cosine of the sums of their pieces' states.

    Read as they are, marks left out, in evaluation mode and without gradient.

    Args:
        encoder: Reads `text` and `translation`.
        batch: Both.
        layer: Block after which states are compared (0: before the first).
        words: Of `text`.
        others: Of `translation`.

    Returns:
        Of each word of `text`: itself and its match; -1 where there is none.
    """
    text, translation = (one._replace(shown=None, hidden=None) for one in (batch.text, batch.translation))
    plain = batch._replace(text=text, translation=translation, image=None, regions=None, audio=None, codes=None)
    # For the time of the reading only, as parts may be frozen, in evaluation mode anyway.
    awake = [part for part in encoder.modules() if part.training]
    encoder.eval()
    try:
        states = encoder(plain, keep=(layer,)).layers[layer]
    finally:
        for part in awake:
            part.training = True
        torch.clear_autocast_cache()  # weights cast without gradient must not serve the reading that learns
    with torch.autocast(batch.item.device.type, enabled=False):
        left, right = _word_states(text, states.text, words), _word_states(translation, states.translation, others)
        cosine = left @ right.mT  # [B, W, V]
    missing = ~(_exist(words)[:, :, None] & _exist(others)[:, None])
    cosine = cosine.masked_fill(missing, -torch.inf)
    best, back = cosine.argmax(2), cosine.argmax(1)
    number = torch.arange(best.shape[1], device=best.device).expand_as(best)
    mutual = (back.gather(1, best) == number) & _exist(words) & (others.count > 0)[:, None]
    return torch.stack([number, best], 2).masked_fill(~mutual[..., None], -1)


def _word_states(text: Text, states: Float[Tensor, "B L D"], words: Words) -> Float[Tensor, "B W D"]:
    """Of length 1. By a product, whose order of adding does not change from run to run."""
    number = torch.arange(words.first.shape[1], device=states.device)[:, None]
    member = (text.word[:, None] == number) & ordinary(text)[:, None]  # [B, W, L]
    return normalize(member.float() @ states.float(), dim=2)


def _exist(words: Words) -> Bool[Tensor, "B W"]:
    return torch.arange(words.first.shape[1], device=words.count.device) < words.count[:, None]
