"""Symmetric InfoNCE in tiles, so that the scores of all pairs never exist at once.

With 8,192 pairs the scores of both directions, their softmax and its gradient are more than 1 GiB. Here one tile of scores
at a time adds to the sums of its rows (left to right) and of its columns (right to left), so that one matrix product
serves both directions; the backward pass makes each tile again and turns it into gradients while it is in the cache: four
matrix products of this size, where both directions apart take six. (The idea of Inf-CL, arXiv:2410.17243, section 3.)
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from .objective import Embeddings

CPU_TILE, DEVICE_TILE = 512, 4096
"""Rows and columns of a tile by default: 1 MiB of scores in float32, for the cache of a core; 64 MiB on an accelerator."""


def tiled_contrast(
    own: Embeddings, every: Embeddings, start: int, scale: Float[Tensor, ""], tile: int | None = None
) -> Float[Tensor, ""]:
    """Mean of both directions' cross-entropies of each row's other side, summed over the own rows, at least in float32.

    Rows that share an identity leave each other's denominators. As `every` holds the own rows too, a row's gradient is the
    sum of what `own` and `every` are given.

    Args:
        own: The rows that are scored, n of them.
        every: All N rows that they are scored against; row `start + i` of it is `own`'s row i.
        start: Where `own` begins in `every`.
        scale: What inner products are multiplied by (1 / temperature).
        tile: Rows and columns of scores that are held at once.
    """
    kind = own.left.device.type
    with torch.autocast(kind, enabled=False):
        wide = torch.promote_types(own.left.dtype, torch.float32)
        vectors = [vector.to(wide) for vector in (own.left, own.right, every.left, every.right)]
        repeated = repeated_rows(every.identity)[start : start + len(own.left)]
        tile = tile or (CPU_TILE if kind == "cpu" else DEVICE_TILE)
        return _TiledContrast.apply(*vectors, scale.to(wide), own.identity, every.identity, repeated, start, tile)


def same_thing(own: Int[Tensor, "n I"], every: Int[Tensor, "N I"]) -> Bool[Tensor, "n N"]:
    """Which rows share an identity in any column."""
    same = torch.zeros(len(own), len(every), dtype=torch.bool, device=own.device)
    for column in range(own.shape[1]):
        same |= own[:, None, column] == every[:, column]
    return same


def repeated_rows(identity: Int[Tensor, "N I"]) -> Bool[Tensor, "N"]:
    """Which rows share an identity with another row in any column."""
    repeated = torch.zeros(len(identity), dtype=torch.bool, device=identity.device)
    for column in identity.unbind(1):
        _, which, counts = column.unique(return_inverse=True, return_counts=True)
        repeated |= counts[which] > 1
    return repeated


class _TiledContrast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *arguments):
        tiles = _Tiles(*arguments)
        sums = [_Sums(side) for side in tiles.own]
        for panel in tiles.panels:
            for rows, columns, scores, spare in tiles.walk(panel):
                sums[panel.side].add(rows, scores, 1, spare)
                if panel.both_ways:
                    sums[1].add(columns, scores, 0, spare)
        positive = _inner(*tiles.panels[0].sides(tiles.own, tiles.every), tiles.size) * tiles.scale
        losses, shares = zip(*(side.finish(positive) for side in sums), strict=True)
        *tensors, ctx.start, ctx.size = arguments
        ctx.save_for_backward(*tensors, *shares[0], *shares[1])
        return (losses[0].sum() + losses[1].sum()) / 2

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        tensors, shares = ctx.saved_tensors[:8], [_Shares(*ctx.saved_tensors[first : first + 3]) for first in (8, 11)]
        with torch.autocast(grad.device.type, enabled=False):
            tiles = _Tiles(*tensors, ctx.start, ctx.size)
            own, every = tiles.no_gradients()
            for panel in tiles.panels:
                vectors, against = panel.sides(tiles.own, tiles.every)
                into, into_against = panel.sides(own, every)
                for rows, columns, scores, spare in tiles.walk(panel):
                    slopes = _slopes(panel, shares, rows, columns, scores, spare)
                    into[rows].addmm_(slopes, against[columns])
                    into_against[columns].addmm_(slopes.t(), vectors[rows])
            # A score grows with the scale as it does with its left vector: so the latter's gradient tells the former's.
            scale, factor = _inner(tiles.own[0], own[0], tiles.size).sum(), tiles.scale * grad / 2
            if every[0] is not None:
                scale += _inner(tiles.every[0], every[0], tiles.size).sum()
            for gradient in (*own, *every):
                if gradient is not None:
                    gradient *= factor
        return *own, *every, scale * grad / 2, *[None] * 5


def _slopes(panel, shares, rows, columns, scores, spare):
    """Gradients of both directions' losses with respect to a tile of scores, in the spare buffer; the scores are used up."""
    share, back = shares[panel.side], shares[1]
    slopes = _odds(scores, share.top[rows], 1, out=spare).mul_(share.factor[rows, None])
    if panel.both_ways:
        slopes.addcmul_(_odds(scores, back.top[columns], 0, out=scores), back.factor[columns])
        if rows == columns:
            slopes.diagonal().copy_(-(share.negative[rows] + back.negative[rows]))
    return slopes


class _Panel(NamedTuple):
    """A rectangle of scores: one side of the own rows against the other side of some rows."""

    side: int
    """Of the own rows: 0 left, 1 right."""
    part: slice
    """Which of all rows are the columns."""
    both_ways: bool
    """Whether these are the own rows: each score serves both directions, and those of the diagonal are the positives'."""

    def sides(self, own, every):
        """The rows' and the columns' share of what is known of both sides of the own and of all rows."""
        return own[self.side], every[1 - self.side][self.part]


class _Tiles:
    """All scores, a tile at a time."""

    def __init__(self, left, right, every_left, every_right, scale, identity, every_identity, repeated, start, size):
        self.own, self.every = (left, right), (every_left, every_right)
        self.scale, self.size = scale, size
        self.identity, self.every_identity, self.repeated = identity, every_identity, repeated
        end, total = start + len(left), len(every_left)
        around = [part for part in (slice(0, start), slice(end, total)) if part.start < part.stop]
        self.panels = [_Panel(0, slice(start, end), True), *(_Panel(side, part, False) for part in around for side in (0, 1))]
        self.buffers = left.new_empty(2, min(size, len(left)) * min(size, total))

    def no_gradients(self):
        """Zeros for the sides of the own and of all rows; None for those that only other rows would ask something of."""
        alone = len(self.panels) == 1
        left, right = self.own
        every_left, every_right = self.every
        own = torch.zeros_like(left), None if alone else torch.zeros_like(right)
        return own, (None if alone else torch.zeros_like(every_left), torch.zeros_like(every_right))

    def walk(self, panel) -> Iterator[tuple[slice, slice, Tensor, Tensor]]:
        """Rows and columns of each tile, its scores (-inf for positives and for what leaves the denominator), and a
        spare buffer of its shape; the next tile takes the place of both."""
        vectors, against = panel.sides(self.own, self.every)
        names = self.every_identity[panel.part]
        for rows in _blocks(len(vectors), self.size):
            scaled = vectors[rows] * self.scale
            again = self.repeated[rows].nonzero()[:, 0]
            for columns in _blocks(len(against), self.size):
                shape = rows.stop - rows.start, columns.stop - columns.start
                scores, spare = self.buffers[:, : shape[0] * shape[1]].view(2, *shape)
                torch.mm(scaled, against[columns].t(), out=scores)
                if len(again):
                    same = same_thing(self.identity[rows][again], names[columns])
                    scores[again] = scores[again].masked_fill_(same, -torch.inf)
                if panel.both_ways and rows == columns:
                    scores.fill_diagonal_(-torch.inf)
                yield rows, columns, scores, spare


class _Shares(NamedTuple):
    """Softmax of one direction, given the scores: `odds(scores, top) * factor`."""

    top: Tensor
    factor: Tensor
    negative: Tensor
    """What the positive does not have, 0 to 1."""


class _Sums:
    """Running sums over the negatives of one direction, relative to the highest score so far."""

    def __init__(self, like):
        self.top = like.new_full((len(like),), torch.finfo(like.dtype).min)  # finite: no inf - inf where all is masked
        self.sum = torch.zeros_like(self.top)

    def add(self, part, scores, dim, spare):
        top = torch.maximum(self.top[part], scores.amax(dim))
        odds = _odds(scores, top, dim, out=spare)
        self.sum[part] = self.sum[part] * (self.top[part] - top).exp_() + odds.sum(dim)
        self.top[part] = top

    def finish(self, positive):
        """The loss of each row, and its shares."""
        losses = torch.logaddexp(self.sum.log() + (self.top - positive), torch.zeros_like(positive))
        top = torch.maximum(self.top, positive)
        negative = self.sum * (self.top - top).exp_()
        factor = 1 / (negative + (positive - top).exp_())
        return losses, _Shares(top, factor, negative * factor)


def _odds(scores, top, dim, out):
    return torch.sub(scores, top.unsqueeze(dim), out=out).exp_()


def _blocks(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _inner(left, right, size):
    """Inner products of rows; in blocks, as their elementwise product would be as large as they are."""
    parts = zip(left.split(size), right.split(size), strict=True)
    return torch.cat([(one * other).sum(1) for one, other in parts])
