"""Masked patch modelling: what a hidden patch of the picture shows, read off the rest.

Mean colours: ViT, arXiv:2010.11929, appendix B.1.2; pixels: SimMIM, arXiv:2111.09886, section 3.4, and MAE, arXiv:2111.06377,
section 4.1.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from ...modalities.batch import Batch
from ...modalities.chance import chance, salt, uniform
from ...modalities.image_front_ends import Patches
from ...models.encoder import Encoder, States
from ...models.transformer import initialize
from .objective import Loss, Objective
from .ranges import check_choice, check_range

WHO = "masked patches"
HIDE = salt("hide patch")
Target = Literal["colour", "pixels", "normalised"]
LEVELS, STEP = 8, 32
"""Levels of a colour channel in three bits, and bytes of one level."""


class MaskedPatches(Objective):
    """Cross-entropy of the mean colour of hidden patches, or distance to their pixels.

    Each patch is hidden by itself; the front end's mask vector stands in its place, whatever the share of others that a recipe
    keeps or exchanges. The published share is 0.5 in ViT, 0.6 in SimMIM and 0.75 in MAE.
    """

    def __init__(self, target: Target = "colour", rate: float = 0.5, weight: float = 1.0):
        """
        Args:
            target: `colour`: the mean of red, green and blue, in 3 bits each: one of 512 (ViT). `pixels`: as the front end
                normalises them, by absolute error (SimMIM). `normalised`: less their mean and by their deviation within the
                patch, by squared error (MAE). The mean is over patches, or over all numbers of theirs.
            rate: Probability with which a patch is hidden.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: The target is unknown, or the rate no share.
        """
        super().__init__(weight)
        check_choice(WHO, "target", target, Target)
        check_range(WHO, "rate", rate, 0, 1)
        self.target, self.rate = target, rate
        self.hides = {"image": rate}

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no pictures as patches, or has no vector for hidden ones.
        """
        found = [part for part in encoder.modules() if isinstance(part, Patches)]
        if "image" not in encoder.widths or not found:
            raise ValueError(
                f"{WHO} need an encoder that reads pictures by the front end Patches, but {type(encoder).__name__} reads "
                f"{', '.join(encoder.widths)}; of other front ends, what is hidden shows in the vectors beside it"
            )
        if found[0].mask is None:
            raise ValueError(f"{WHO}: the front end has no vector for hidden patches; give it `maskable: true`")
        self._front_end = (found[0],)  # in a tuple, where the module's registry does not look
        self.values = 1 if self.target == "colour" else 3 * found[0].patch ** 2
        self.head = nn.Linear(encoder.widths["image"], LEVELS**3 if self.target == "colour" else self.values)
        initialize(self.head)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        image = view.image
        if image is None or image.hidden is not None:
            return view
        places = torch.arange(self._front_end[0].count(*image.pixels.shape[2:]), device=image.pixels.device)
        sample = chance(self.key, salt(view.source), view.epoch, view.sample)
        hidden = (uniform(sample[:, None], HIDE, places) < self.rate) & image.present[:, None]
        return view._replace(image=image._replace(hidden=hidden))

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        hidden = self._hidden(marked)
        return self.values * (torch.zeros((), dtype=torch.long, device=marked.item.device) if hidden is None else hidden.sum())

    def loss(self, states: States, marked: Batch) -> Loss:
        hidden = self._hidden(marked)
        if hidden is None or states.image is None:
            nothing = self.head.weight.new_zeros(0, self.head.in_features)
            return Loss(self.head(nothing).float().sum(), self.count(marked))
        scores = self.head(states.image[hidden]).float()
        cells = cut_patches(marked.image.pixels, self._front_end[0].patch)[hidden]  # [N, 3, patch x patch], bytes
        return Loss(self._distance(scores, cells), self.count(marked))

    def _distance(self, scores: Float[Tensor, "N O"], cells: UInt8[Tensor, "N 3 _"]) -> Float[Tensor, ""]:
        if self.target == "colour":
            return F.cross_entropy(scores, mean_colours(cells), reduction="sum")
        if self.target == "pixels":
            return F.l1_loss(scores, self._front_end[0].normalise(cells, channels=1).float().flatten(1), reduction="sum")
        return F.mse_loss(scores, F.layer_norm(cells.float().flatten(1), (self.values,), eps=1e-6), reduction="sum")

    def _hidden(self, marked: Batch) -> Bool[Tensor, "B P"] | None:
        return None if marked.image is None else marked.image.hidden


def cut_patches(pixels: UInt8[Tensor, "B 3 H W"], patch: int) -> UInt8[Tensor, "B P 3 _"]:
    """The bytes of each patch, row by row, channel by channel, as `Patches` reads them."""
    rows, columns = pixels.shape[2] // patch, pixels.shape[3] // patch
    cells = pixels.unflatten(3, (columns, patch)).unflatten(2, (rows, patch))
    return cells.permute(0, 2, 4, 1, 3, 5).flatten(4).flatten(1, 2)


def mean_colours(cells: UInt8[Tensor, "N 3 _"]) -> Int[Tensor, "N"]:
    """Class of the mean colour: three bits of red, of green and of blue, in this order."""
    red, green, blue = (cells.float().mean(2) / STEP).long().unbind(1)
    return (red * LEVELS + green) * LEVELS + blue
