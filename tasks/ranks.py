"""What the ranks of a run do together: sums, gathering with exact gradients, and the sum of gradients.

Every function is the identity without a process group, and a collective with one: all ranks must call it, in the same
order. Tensors stay on their device (which the group's backend must serve), and shapes are told between ranks before
anything is sent, so that a disagreement is one error on all ranks and not a hang.

One rule makes contrastive losses exact: a rank sums the loss of *its own* rows against *all* rows, `gather_rows` hands
every rank the sum over ranks of what its rows are asked to change, and `sum_gradients` sums what the ranks' parameters
are asked to change. Nothing is averaged, so nothing depends on how many ranks there are.
"""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..modalities.batch import Batch

EMPTY = {"word": -1, "alignment": -1, "label": -1, "attribute": -1, "tags": -1, "span": -1}
"""What the fields of a batch hold where nothing is present; the others hold 0 (False)."""


def world() -> tuple[int, int]:
    """This process's rank and the number of ranks; (0, 1) without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def sum_over_ranks(tensor: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """Elementwise sum over ranks: a new tensor without gradient. Booleans are counted (int64)."""
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    total = total.long() if total.dtype == torch.bool else total
    if world()[1] > 1:
        dist.all_reduce(total)
    return total


def gather_rows(rows: Shaped[Tensor, "N ..."]) -> tuple[Shaped[Tensor, "M ..."], int]:
    """The rows of all ranks, in the order of ranks, and where this rank's begin.

    Ranks may bring different numbers of rows; one that brings none learns width and dtype from the others. Floating
    rows carry gradient: in backward, a rank's rows receive the sum over ranks of their gradients. That is a collective
    too: every rank must run backward through what it is given, a rank without rows as well (its sum over no rows
    still depends on all rows), and through several gathered tensors in the same order (gather `torch.cat([left,
    right], 1)` at once and the order is never in question).

    Args:
        rows: This rank's rows, N of them (0 is allowed).

    Returns:
        All M rows, and the index of this rank's first row among them.

    Raises:
        ValueError: On all ranks alike, if the ranks' rows differ in width, dtype or in whether they carry gradient.
    """
    rank, size = world()
    if size == 1:
        return rows, 0
    wants = rows.requires_grad and torch.is_grad_enabled()
    facts = _tell((rows.shape[0], (tuple(rows.shape[1:]), rows.dtype, wants)))
    counts = [count for count, _ in facts]
    kinds = {kind: None for count, kind in facts if count}
    if not kinds:
        return rows, 0
    if len(kinds) > 1:
        raise ValueError(f"gather_rows: ranks must agree on (width, dtype, gradient), found {list(kinds)}; {counts} rows")
    width, dtype, wants = next(iter(kinds))
    if not rows.shape[0]:
        rows = rows.reshape(0, *width).to(dtype)
        # A rank without rows must still take part in the backward of the others.
        rows = rows if rows.requires_grad or not wants else rows.detach().requires_grad_()
    start = sum(counts[:rank])
    return (_Gather.apply(rows, counts, start) if wants else _exchange([rows], counts)[0]), start


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, counts: list[int], start: int) -> Tensor:
        ctx.own = slice(start, start + rows.shape[0])
        return _exchange([rows], counts)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor):
        return sum_over_ranks(gradient)[ctx.own], None, None


def gather_batch(batch: Batch) -> tuple[Batch, int]:
    """The samples of all ranks as one batch, in the order of ranks, and where this rank's begin. Without gradient.

    Positions (text, regions, sound, codes, alignments) are padded on the right to the longest of any rank: `present`
    is False there, what `EMPTY` names -1, everything else 0 (token ids too, whatever the pad id: only `present`
    says what is there). Pictures must have the same size on all ranks.

    Raises:
        ValueError: On all ranks alike, naming the field, if one is missing on some rank or differs in type or width,
            or if the ranks' batches are of different sources.
    """
    rank, size = world()
    if size == 1:
        return batch, 0
    leaves = dict(_leaves(batch))
    facts = _tell({path: _describe(leaf) for path, leaf in leaves.items()})
    _check_alike(facts)
    counts = [found["item"][0][0] for found in facts]
    tensors = {path: leaf.detach() for path, leaf in leaves.items() if isinstance(leaf, Tensor)}
    for path, tensor in tensors.items():
        if tensor.ndim > 1:
            longest = max(found[path][0][1] for found in facts)
            tensors[path] = _pad(tensor, 1, longest, EMPTY.get(path.split(".")[-1], 0))
    gathered = dict(zip(tensors, _exchange(list(tensors.values()), counts), strict=True))
    return _rebuild(batch, gathered), sum(counts[:rank])


def sum_gradients(parameters: Iterable[nn.Parameter], bucket_bytes: int = 25_000_000) -> None:
    """Sum `.grad` over ranks, after all backward passes of a step. A no-op with one rank.

    A parameter without gradient on every rank keeps None, so that neither decay nor momentum moves it; without one on
    some ranks, it counts as zero there. The order of sums depends only on the order of parameters, and all ranks end
    with the same bits.

    Args:
        parameters: The same parameters, in the same order, on every rank.
        bucket_bytes: Gradients are sent in flat pieces of at most this size (larger single ones are sent in place).
    """
    parameters = list(parameters)
    if world()[1] == 1 or not parameters:
        return
    here = torch.tensor([parameter.grad is not None for parameter in parameters], device=parameters[0].device)
    present = sum_over_ranks(here).tolist()
    gradients = []
    for parameter, ranks in zip(parameters, present, strict=True):
        if ranks:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            gradients.append(parameter.grad)
    pending = []
    for bucket in _buckets(gradients, bucket_bytes):
        alone = len(bucket) == 1 and bucket[0].is_contiguous()
        flat = bucket[0] if alone else torch.cat([gradient.reshape(-1) for gradient in bucket])
        pending.append((dist.all_reduce(flat, async_op=True), [] if alone else bucket, flat))
    for work, bucket, flat in pending:
        work.wait()
        start = 0
        for gradient in bucket:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
            start += gradient.numel()


def _buckets(tensors: list[Tensor], limit: int) -> Iterator[list[Tensor]]:
    """Neighbours of one dtype and device, together no larger than `limit` bytes unless alone."""
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for alike in kinds.values():
        bucket: list[Tensor] = []
        filled = 0
        for tensor in alike:
            size = tensor.numel() * tensor.element_size()
            if bucket and filled + size > limit:
                yield bucket
                bucket, filled = [], 0
            bucket.append(tensor)
            filled += size
        yield bucket


def _tell(fact: Any) -> list[Any]:
    """What every rank has to say, in the order of ranks."""
    facts = [None] * world()[1]
    dist.all_gather_object(facts, fact)
    return facts


def _exchange(tensors: list[Tensor], counts: list[int]) -> list[Tensor]:
    """Gather tensors `[N, ...]`, N = `counts` of the rank and the rest alike, as bytes in one collective."""
    longest, size = max(counts), world()[1]
    padded = [_pad(tensor, 0, longest) for tensor in tensors]
    pieces = [tensor.contiguous().flatten().view(torch.uint8) for tensor in padded]
    payload = torch.cat(pieces)
    received = payload.new_empty(size, payload.numel())
    dist.all_gather(list(received.unbind()), payload)
    gathered = []
    for tensor, piece in zip(padded, received.split([len(piece) for piece in pieces], dim=1), strict=True):
        blocks = piece.contiguous().view(tensor.dtype).view(size, *tensor.shape)  # [ranks, longest, ...]
        gathered.append(torch.cat([block[:count] for block, count in zip(blocks, counts, strict=True)]))
    return gathered


def _pad(tensor: Tensor, axis: int, length: int, value: int = 0) -> Tensor:
    if tensor.shape[axis] == length:
        return tensor
    shape = list(tensor.shape)
    shape[axis] = length - shape[axis]
    return torch.cat([tensor, tensor.new_full(shape, value)], dim=axis)


def _leaves(rows: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every field that is not itself a NamedTuple, by its path (`text.tokens`)."""
    for name, field in zip(rows._fields, rows, strict=True):
        if isinstance(field, tuple):
            yield from _leaves(field, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def _rebuild(rows: Any, leaves: dict[str, Tensor], prefix: str = "") -> Any:
    def renew(name: str, field: Any) -> Any:
        if isinstance(field, tuple):
            return _rebuild(field, leaves, f"{prefix}{name}.")
        return leaves.get(prefix + name, field)

    return type(rows)(*(renew(name, field) for name, field in zip(rows._fields, rows, strict=True)))


def _describe(leaf: Any) -> Any:
    return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, Tensor) else leaf


def _check_alike(facts: list[dict[str, Any]]) -> None:
    """Refuse batches that cannot be joined, by what every rank said of its fields."""

    def joint(path: str, fact: Any) -> Any:
        """What must be equal: all but the samples, and the positions where they can be padded."""
        if not isinstance(fact, tuple):
            return fact
        shape, dtype = fact
        return len(shape), shape[1:] if path.startswith("image.") else shape[2:], dtype

    for paths in zip_longest(*facts):
        for path in dict.fromkeys(path for path in paths if path is not None):
            found = [fact.get(path, "missing") for fact in facts]
            if any(joint(path, fact) != joint(path, found[0]) for fact in found):
                raise ValueError(f"gather_batch: ranks disagree on `{path}` of the batch: by rank {found}")
