"""Which regions of a picture are hidden, and what is shown in their place: zeros, another picture's region, or themselves.

Every draw is a hash of seed, source, epoch, sample and place among the picture's regions: what is hidden does not depend on
padding, batch-mates, rank or split. All objectives over regions that share a reading share one hiding, the first one's.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from ...modalities.batch import Batch, Regions, number_positions
from ...modalities.chance import chance, pick, salt, uniform
from ...modalities.region import overlap
from ...models.encoder import Encoder
from .pairs import On
from .ranges import check_choice

HIDE, FATE, LENDER, REGION = salt("hide region"), salt("fate of region"), salt("lender of region"), salt("region lent")


@dataclass(frozen=True)
class RegionHiding:
    """How regions are hidden.

    Args:
        rate: Probability with which a region is hidden.
        keep: Share of hidden regions that stay visible.
        other: Share of hidden regions in whose place a region of another picture of the step is shown; the rest, and those
            that no other picture is there for, are shown as zeros (where the embeddings may put a vector of their own).
        least_one: Whether of a picture with regions one is hidden where no draw hides any.
        neighbours: Regions that overlap a hidden one by more than this (intersection over union) are shown as zeros, too, and
            not scored, so that a region cannot be read off another box over the same thing (12-in-1, arXiv:1912.02315,
            section 3: 0.4). Its released code, and VOLTA's, zero no neighbour: the overlaps serve as a divisor of the global
            feature alone, whose mean is then wrong. None: neighbours stay.

    Raises:
        ValueError: A share is outside 0 to 1.
    """

    rate: float = 0.15
    keep: float = 0.0
    other: float = 0.0
    least_one: bool = False
    neighbours: float | None = None

    def __post_init__(self):
        shares = {"rate": self.rate, "keep": self.keep, "other": self.other, "keep + other": self.keep + self.other}
        for name, share in {**shares, "neighbours": self.neighbours or 0.0}.items():
            if not 0 <= share <= 1:
                raise ValueError(f"hiding of regions: {name} is {share}, but a share lies between 0 and 1")


Published = Literal["vilbert", "lxmert", "uniter"]
PUBLISHED: dict[str, RegionHiding] = {
    "vilbert": RegionHiding(keep=0.1),  # arXiv:1908.02265, section 3.2; VOLTA's controlled models too
    "lxmert": RegionHiding(keep=0.1, other=0.1),  # arXiv:1908.07490, released code
    "uniter": RegionHiding(least_one=True),  # arXiv:1909.11740, section 3.2, and its released code; UC2 too
}


def check_region_hiding(hiding: RegionHiding | str, who: str) -> RegionHiding:
    """The hiding of that name, or the one given.

    Raises:
        ValueError: There is none of that name.
    """
    if isinstance(hiding, RegionHiding):
        return hiding
    check_choice(who, "hiding", hiding, Published)
    return PUBLISHED[hiding]


class Region(NamedTuple):
    """Some regions of a batch, one after the other."""

    row: Int64[Tensor, "N"]
    column: Int64[Tensor, "N"]
    key: Int64[Tensor, "N"]
    """Random key, of sample, epoch and place among the picture's regions."""


def lend_regions(view: Batch, hiding: RegionHiding) -> Batch | None:
    """Features that other samples may show in the place of their own; None where none are asked for."""
    if view.regions is None or view.regions.hidden is not None or not hiding.rate * hiding.other:
        return None
    own = Regions(view.regions.features, view.regions.boxes, view.regions.present)
    return Batch(view.source, view.item, view.sample, view.epoch, regions=own)


def hide_regions(view: Batch, key: int, hiding: RegionHiding, pool: Batch | None = None) -> Batch:
    """Mark what is hidden of the pictures' regions; a hiding that is there is kept as it is.

    Args:
        view: A batch; without regions it stays as it is.
        key: Random key of the objective.
        hiding: How.
        pool: What the step's samples lent; None: the view's own loan.
    """
    regions = view.regions
    if regions is None or regions.hidden is not None:
        return view
    hidden = _choose(view, key, hiding)
    places = _find(view, key, hidden)
    fate = uniform(places.key, FATE)
    kept, changed = fate < hiding.keep, (fate >= hiding.keep) & (fate < hiding.keep + hiding.other)
    features = regions.features[places.row, places.column]
    shown = torch.where(kept[:, None], features, 0)
    pool = lend_regions(view, hiding) if pool is None else pool
    if pool is not None and pool.regions is not None:
        shown = _borrow(shown, changed, Region(*(field[changed] for field in places)), view.item, pool)
    near = _neighbours(regions, hidden, hiding.neighbours)
    whole = regions.features.masked_fill(near[..., None], 0).index_put((places.row, places.column), shown)
    return view._replace(regions=regions._replace(shown=whole, hidden=hidden))


def scored_regions(marked: Batch, on: On, seen: bool = False) -> Bool[Tensor, "B R"] | None:
    """Hidden regions of the pairs that are scored, or all of them, hidden or `seen`; None where the batch has no regions."""
    if marked.regions is None:
        return None
    chosen = marked.regions.present if seen else marked.regions.hidden
    chosen = torch.zeros_like(marked.regions.present) if chosen is None else chosen
    return chosen if on == "all" or marked.matched is None else chosen & marked.matched[:, None]


def feature_width(encoder: Encoder, who: str) -> int:
    """Numbers of a region's feature that an encoder reads.

    Raises:
        ValueError: It reads no regions.
    """
    if "regions" not in encoder.widths:
        raise ValueError(
            f"{who} needs an encoder that reads regions; {type(encoder).__name__} reads {', '.join(encoder.widths)}: use a "
            "fused encoder whose `picture` are embeddings of regions"
        )
    return encoder.picture.features


def _choose(view: Batch, key: int, hiding: RegionHiding) -> Bool[Tensor, "B R"]:
    present = view.regions.present
    draw = uniform(region_keys(view, key), HIDE).masked_fill(~present, torch.inf)
    hidden = draw < hiding.rate
    if hiding.least_one and present.shape[1]:
        first = draw == draw.amin(1, keepdim=True)
        hidden = hidden | (present & first & ~hidden.any(1, keepdim=True))
    return hidden


def region_keys(view: Batch, key: int) -> Int64[Tensor, "B R"]:
    """Random key of each region: of source, sample, epoch and place among the picture's regions."""
    sample = chance(key, salt(view.source), view.epoch, view.sample)
    return chance(sample[:, None], number_positions(view.regions.present))


def _find(view: Batch, key: int, chosen: Bool[Tensor, "B R"]) -> Region:
    row, column = chosen.nonzero(as_tuple=True)
    return Region(row, column, region_keys(view, key)[row, column])


def _borrow(
    shown: Float[Tensor, "N F"], changed: Bool[Tensor, "N"], places: Region, item: Int[Tensor, "B"], pool: Batch
) -> Float[Tensor, "N F"]:
    """What is shown, with a region of another picture where `changed`, if there is another picture."""
    present = pool.regions.present
    candidate = (item[places.row][:, None] != pool.item) & present.any(1)  # [changed, samples of the pool]
    if not candidate.numel():
        return shown
    draw = chance(places.key[:, None], LENDER, pool.epoch, pool.sample)
    lender = draw.masked_fill(~candidate, torch.iinfo(draw.dtype).min).argmax(1)
    number = pick(present.sum(1)[lender].clamp_min(1), places.key, REGION)
    there = present[lender] & (number_positions(present)[lender] == number[:, None])
    lent = pool.regions.features[lender, there.int().argmax(1)].to(shown.dtype)
    return shown.masked_scatter(changed[:, None], lent * candidate.any(1, keepdim=True))


def _neighbours(regions: Regions, hidden: Bool[Tensor, "B R"], threshold: float | None) -> Bool[Tensor, "B R"]:
    if threshold is None:
        return torch.zeros_like(hidden)
    touched = (overlap(regions.boxes) > threshold) & hidden[:, None]
    return touched.any(2) & regions.present & ~hidden
