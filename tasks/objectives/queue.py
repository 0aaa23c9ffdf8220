"""A queue of keys: the negatives of contrast with momentum. arXiv:1911.05722, section 3.2."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class KeyQueue(nn.Module):
    """The last keys that were pushed, each with what it is about; a step of training reads it as it is, and pushes after.

    Attributes:
        keys: `[K, D]`.
        identity: `[K, I]`, numbers of what a key is about.
        pointer: Where the next key goes.
        filled: How many keys have been pushed, at most K.
    """

    def __init__(self, size: int, width: int, columns: int):
        """
        Args:
            size: Number of keys K.
            width: Width D of a key.
            columns: How many numbers I say what a key is about.
        """
        super().__init__()
        self.register_buffer("keys", torch.zeros(size, width))
        self.register_buffer("identity", torch.zeros(size, columns, dtype=torch.int64))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.int64))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    @property
    def full(self) -> bool:
        return int(self.filled) == len(self.keys)

    @torch.no_grad()
    def push(self, keys: Float[Tensor, "N D"], identity: Int[Tensor, "N I"]) -> None:
        """Put keys in the place of the oldest; of more than the queue holds, the last."""
        size = len(self.keys)
        place = (self.pointer + torch.arange(len(keys), device=self.keys.device)) % size
        self.keys[place[-size:]] = keys[-size:].to(self.keys.dtype)
        self.identity[place[-size:]] = identity[-size:]
        self.pointer.add_(len(keys)).remainder_(size)
        self.filled.add_(len(keys)).clamp_(max=size)

    @torch.no_grad()
    def repeat(self) -> None:
        """Fill what is empty with what is there, over and over."""
        count = int(self.filled)
        place = torch.arange(len(self.keys), device=self.keys.device) % count
        self.keys.copy_(self.keys[place])
        self.identity.copy_(self.identity[place])
        self.pointer.zero_()
        self.filled.fill_(len(self.keys))

    def shares(self, identity: Int[Tensor, "N J"]) -> Bool[Tensor, "N K"]:
        """Which keys are about something that a row is about, in whatever columns."""
        shared = torch.zeros(len(identity), len(self.keys), dtype=torch.bool, device=identity.device)
        found = torch.isin(self.identity, identity.flatten()).any(1).nonzero()[:, 0]  # few, whose columns are then compared
        shared[:, found] = (identity[:, None, :, None] == self.identity[found][:, None]).flatten(2).any(2)
        return shared
