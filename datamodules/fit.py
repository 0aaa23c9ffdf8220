"""Packing texts into rows of one capacity: best-fit decreasing (Krell et al., arXiv:2107.02027, section 3; Ding et al.,
arXiv:2404.10830, section 3). The longest text first, each into the fullest row that still has room for it.

It needs at most 11/9 of the fewest possible rows and 4 (Johnson et al. 1974, SIAM Journal on Computing 3:4); on real lengths
hardly a slot stays empty, since short texts fill what long ones leave. Rows with equally much room are alike, and so are
texts of equal length: both are handled as groups, so that the work grows with the number of lengths more than of texts.
"""

import numpy as np
from jaxtyping import Int64, Integer


def fit_rows(lengths: Integer[np.ndarray, "N"], capacity: int) -> Int64[np.ndarray, "N"]:
    """Row of each text.

    Args:
        lengths: Tokens of each text, with all that it takes in the row; a text of none takes a slot all the same.
        capacity: Tokens of a row.

    Returns:
        Rows from 0, none left out; a pure function of the arguments. Earlier rows start with longer texts.

    Raises:
        ValueError: A text is longer than a row, or a length is negative.
    """
    if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) <= capacity:
        wrong = int(np.flatnonzero((lengths > capacity) | (lengths < 0))[0])
        raise ValueError(
            f"text {wrong} has {lengths[wrong]} tokens, but a row holds 0 to {capacity}; cut the text, or give rows more room"
        )
    needs = np.maximum(lengths, 1).astype(np.int64)
    order = np.argsort(-needs, kind="stable")
    sizes, counts = np.unique(needs, return_counts=True)
    rows, open_rows, start = np.empty(len(needs), np.int64), _OpenRows(capacity), 0
    for size, count in zip(sizes[::-1].tolist(), counts[::-1].tolist(), strict=True):
        rows[order[start : start + count]] = open_rows.place(size, count)
        start += count
    return rows


class _OpenRows:
    """Rows by the room that is left in them."""

    def __init__(self, capacity: int):
        self.capacity, self.opened = capacity, 0
        self.by_room: dict[int, list[int]] = {}
        self.rooms = 0
        """Bit r is set where some row has room r, so that the tightest is found by arithmetic."""

    def place(self, size: int, count: int) -> list[int]:
        """Rows of `count` texts of one size."""
        placed: list[int] = []
        while len(placed) < count:
            placed += self._place_some(size, count - len(placed))
        return placed

    def _place_some(self, size: int, count: int) -> list[int]:
        """As many of the texts as go into rows with the least room that is enough, or into new rows."""
        enough = self.rooms >> size
        room = size + (enough & -enough).bit_length() - 1 if enough else self.capacity
        each = room // size  # once a text is in, its row is the tightest: it takes all that it can
        chosen = self._take(room, -(-count // each)) if enough else self._open(-(-count // each))
        fill = min(count, len(chosen) * each)
        whole, rest = divmod(fill, each)
        self._give(room - each * size, chosen[:whole])
        self._give(room - rest * size, chosen[whole:])
        return np.repeat(chosen, each)[:fill].tolist()

    def _open(self, count: int) -> list[int]:
        self.opened += count
        return list(range(self.opened - count, self.opened))

    def _take(self, room: int, count: int) -> list[int]:
        rows = self.by_room[room]
        chosen, self.by_room[room] = rows[:count], rows[count:]
        if not self.by_room[room]:
            self.rooms &= ~(1 << room)
        return chosen

    def _give(self, room: int, rows: list[int]) -> None:
        if rows and room:
            self.by_room.setdefault(room, []).extend(rows)
            self.rooms |= 1 << room
