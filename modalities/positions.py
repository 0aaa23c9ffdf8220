"""Learned positions on a grid, kept with the grid's shape and resampled for pictures of another size.

A flat table of positions does not say what grid it was trained on: 2 x 8 and 4 x 4 are both 16 rows, and 196 rows are not
a class token and 195. So our table is stored as [rows, columns, D], and a flat one of a foreign checkpoint is read only
with its number of prefix tokens declared and its grid declared or square. Resampling is bicubic with antialiasing, in
float32, with pixel centres aligned (not corners), as timm does it; without antialiasing a table shrunk to a few rows would
read but a few of its own.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class GridPositions(nn.Module):
    """A learned vector for each cell of a grid; loading a state dict of another grid resamples its table."""

    def __init__(self, width: int, rows: int, columns: int):
        """
        Args:
            width: Size D of the vectors.
            rows, columns: Grid that the table is trained on.
        """
        super().__init__()
        self.table = nn.Parameter(torch.empty(rows, columns, width))
        nn.init.trunc_normal_(self.table, std=0.02)
        self.register_load_state_dict_pre_hook(_resample_loaded)

    def forward(self, rows: int, columns: int) -> Float[Tensor, "P D"]:
        """Positions of a grid, row by row; P = rows x columns."""
        return resample_grid(self.table, rows, columns).flatten(0, 1)


def resample_grid(
    table: Float[Tensor, "old_rows old_columns D"], rows: int, columns: int
) -> Float[Tensor, "{rows} {columns} D"]:
    """The table itself for its own grid, else bicubic interpolation. Equal counts are not equal grids."""
    if table.shape[:2] == (rows, columns):
        return table
    grid = F.interpolate(table.float().permute(2, 0, 1)[None], (rows, columns), mode="bicubic", antialias=True)
    return grid[0].permute(1, 2, 0).to(table.dtype)


def resample_flat(
    table: Float[Tensor, "N D"], prefix: int, rows: int, columns: int, trained: tuple[int, int] | None = None
) -> Float[Tensor, "M D"]:
    """Resample a flat table of a foreign checkpoint; the rows of its prefix tokens are kept as they are.

    Args:
        table: Rows of prefix tokens (class, registers), then of the grid, row by row.
        prefix: Number of prefix rows; 0 for models whose prefix tokens have no position.
        rows, columns: Grid wanted; M = prefix + rows x columns.
        trained: Grid of the table; None: square.

    Raises:
        ValueError: The grid that the table must have does not fit its rows.
    """
    cells = len(table) - prefix
    grid = trained or (math.isqrt(max(cells, 0)),) * 2
    if grid[0] * grid[1] != cells or cells < 1:
        raise ValueError(
            f"position table: found {len(table)} rows, of which {prefix} belong to prefix tokens; the other {cells} "
            f"{'are not a square grid' if trained is None else f'are not the declared grid of {grid[0]} x {grid[1]}'}; "
            "give the grid (rows, columns) that the checkpoint was trained on, and check the model's prefix tokens"
        )
    resampled = resample_grid(table[prefix:].unflatten(0, grid), rows, columns)
    return torch.cat([table[:prefix], resampled.flatten(0, 1)])


def _resample_loaded(module: GridPositions, state: dict, prefix: str, *_) -> None:
    loaded, own = state.get(prefix + "table"), module.table
    if loaded is not None and loaded.ndim == 3 and loaded.shape[2] == own.shape[2]:
        state[prefix + "table"] = resample_grid(loaded, *own.shape[:2])
