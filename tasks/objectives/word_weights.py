"""Rare tokens hidden more often than frequent ones: weights of count to the power -alpha. XLM, arXiv:1901.07291, section 3.2.

The paper weights tokens by the square root of their inverse frequency (alpha 0.5); in its released code the flag,
`--sample_alpha`, is 0 by default, and no published command sets it. That code draws an exact number of positions from a
whole batch, padding counted in, without replacement. Here each token has a probability of its own and is drawn by its own
hash: the probabilities of one text (a document of its row; for a pair both halves together) are proportional to the weights
and sum to the rate times the number of its ordinary tokens. So the expected number hidden is exact for every text, and no
other text of the batch has a say. Where the rate would ask for more than certainty of a token, it is certain, and the others
share what is left. An entry that was never counted weighs as one counted once; the released code never hides those.
"""

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from ...modalities.entry_counts import EntryCounts, read_counts
from ...modalities.vocabulary import Vocabulary

BITS = 49
"""Weights are integers up to 2^49: sums over texts of up to 16,384 tokens are exact, in whatever order they are added, and so
what is hidden depends neither on batch-mates nor on the device. Rounding moves the weight of an entry counted a million million
times by 1e-9 at alpha 0.5, by 1e-3 at 1."""


def load_counts(who: str, alpha: float, path: str | None, scheme: str) -> EntryCounts | None:
    """Counts for the exponent; None where it is 0.

    Args:
        who: Whose options these are, for the messages.
        alpha: Exponent.
        path: Counts file.
        scheme: What is hidden at once.

    Raises:
        ValueError: The exponent is outside 0 to 1, has no counts file (being 0, no use for one), or is meant for words
            or spans.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"{who}: alpha is {alpha}, but lies between 0 (every token alike) and 1; XLM's paper has 0.5")
    if alpha == 0:
        if path is not None:
            raise ValueError(
                f"{who}: counts is {path}, but alpha is 0, so nothing would be weighed by them; set alpha (XLM's paper: "
                "0.5), or leave counts out (null)"
            )
        return None
    if path is None:
        raise ValueError(
            f"{who}: alpha is {alpha}, but counts names no file; `interlingua tokenizer counts` writes one, or leave alpha out"
        )
    if scheme != "token":
        raise ValueError(f"{who}: alpha weights single tokens, but scheme is {scheme!r}; use scheme token, or leave alpha out")
    return read_counts(path)


def check_counts(who: str, found: EntryCounts | None, path: str | None, vocabulary: Vocabulary) -> None:
    """Raise ValueError if the counts are of another vocabulary."""
    if found is not None and len(found.counts) != vocabulary.size:
        raise ValueError(
            f"{who}: {path} counts {len(found.counts)} entries, but the encoder's vocabulary has {vocabulary.size}; "
            "count with the tokenizer that the encoder is built for"
        )


def weigh_entries(counts: Int64[Tensor, "V"], alpha: float) -> Int64[Tensor, "V"]:
    """Integer weights proportional to count to the power -alpha, the greatest of them 2^49."""
    weight = counts.clamp_min(1).double() ** -alpha
    return (weight / weight.max() * 2.0**BITS).round().long().clamp_min(1)


def spread_rate(rate: float, weight: Int64[Tensor, "T"], group: Int64[Tensor, "T"]) -> Float64[Tensor, "T"]:
    """Probability of each token to be hidden: proportional to its weight, at most 1, of mean `rate` in each group.

    Args:
        rate: Mean over each group.
        weight: Positive integers, as `weigh_entries` gives them.
        group: Number of each token's group, from 0.
    """
    order = torch.argsort(weight, stable=True)
    order = order[torch.argsort(group[order], stable=True)]  # by group, then by weight
    weight, group = weight[order], group[order]
    size = torch.bincount(group)  # 0 for texts of control tokens alone
    end = size.cumsum(0)
    sums = weight.cumsum(0)  # of all groups: may wrap around, differences within a group are right
    before = torch.cat([sums.new_zeros(1), sums])[(end - size)[group]]
    heavier = end[group] - 1 - torch.arange(len(weight), device=weight.device)
    # Certain, if the rate that is left when all heavier ones are certain asks for 1 or more.
    certain = (rate * size[group] - heavier) * weight >= sums - before
    taken = torch.zeros_like(size).index_add(0, group, certain.to(size.dtype))
    rest = torch.zeros_like(size).index_add(0, group, torch.where(certain, 0, weight))
    share = size[group].double() * weight.double() / rest[group].clamp_min(1).double()  # 1 exactly where all weigh alike
    probability = torch.where(certain, 1.0, (rate - taken / size.double())[group] * share)
    return torch.empty_like(probability).index_put((order,), probability)
