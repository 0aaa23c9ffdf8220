"""Embeddings of regions that stand among the words of the text: M3P's before them, VL-BERT's behind."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..modalities.batch import Batch
from .embeddings import TextEmbeddings
from .picture_embeddings import Embedded
from .region_embeddings import RegionEmbeddings, segment_vector
from .transformer import initialize


class LeadingRegions(RegionEmbeddings):
    """Regions that stand before the text, and count as positions (M3P, arXiv:2006.02635, section 3.1): a norm over the sum of
    feature and box, then position and the text's norm. Features and boxes have length 1."""

    def __init__(
        self,
        features: int = 2048,
        width: int = 768,
        values: Literal[4, 5, 7] = 5,
        mask: bool = False,
        dropout: float = 0.1,
        epsilon: float = 1e-5,
    ):
        """
        Args:
            features, width, values, mask, dropout, epsilon: As of `RegionEmbeddings`.
        """
        super().__init__(features, width, values, None, mask, unit=True, dropout=dropout, epsilon=epsilon)
        self.norm = nn.LayerNorm(width, epsilon)

    def forward(self, batch: Batch, text: TextEmbeddings) -> Embedded:
        if batch.regions is None:
            return super().forward(batch, text)
        features, boxes, present = self.gather(batch.regions)
        many, words = present.sum(1, keepdim=True), None
        if batch.text is not None:
            self._check(batch.text.present, present, text.max_tokens)
            words = text(batch.text._replace(position=torch.where(batch.text.present, batch.text.position + many, 0)))
        place = (torch.cumsum(present, 1) - 1)[present]
        vectors = self.dropout(self.norm(self.feature(features[present]) + self.box(boxes[present])))
        return Embedded(words, text.finish(vectors + text.positions(place + text.position_offset)))

    @staticmethod
    def _check(words: Bool[Tensor, "B L"], regions: Bool[Tensor, "B R"], most: int) -> None:
        # The look at what is there waits for the device: only rows that are long enough to be wrong pay for it.
        if words.shape[1] + regions.shape[1] > most:
            both = int((words.sum(1) + regions.sum(1)).max())
            if both > most:
                raise ValueError(
                    f"LeadingRegions: regions count as positions, but {both} of regions and tokens together are more than the "
                    f"text tower's max_tokens {most}; take fewer regions, lower the data's max_tokens, or raise the tower's"
                )


class SpokenRegions(RegionEmbeddings):
    """Regions that stand like words in the sentence, and the whole picture in every word (VL-BERT, arXiv:1908.08530,
    section 3.2, with VOLTA's global region as the last).

    Feature and box, the box as sines and cosines, go through one layer. A word gets the global region's vector, a region the
    vector of a word for objects; all regions have the position behind the text, the global one the next. VOLTA's controlled
    set-up puts the global region first, and its code still takes the last one for it: so does `whole: first`.
    """

    def __init__(
        self,
        features: int = 2048,
        width: int = 768,
        waves: int = 256,
        whole: Literal["first", "last"] = "last",
        mask: bool = True,
        mask_word: bool = True,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
    ):
        """
        Args:
            features, width, whole, mask, epsilon: As of `RegionEmbeddings`.
            waves: Sines, and as many cosines, for each of the four numbers of a box.
            mask_word: Whether a masked region has a word of its own.
            dropout: Rate on what goes into the layer; on the sums it is the text's.
        """
        super().__init__(features, width, 4, whole, mask, dropout=dropout, epsilon=epsilon)
        del self.feature, self.box
        self.waves = waves
        self.inward = nn.Linear(8 * waves + features, width)
        self.words = nn.Embedding(2, width)  # an object, the whole picture
        self.mask_word = nn.Parameter(torch.randn(width) * 0.02) if mask_word else None
        self.text_norm, self.region_norm = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        initialize(self.words)
        nn.init.xavier_uniform_(self.inward.weight), nn.init.zeros_(self.inward.bias)
        nn.init.zeros_(self.text_norm.weight), nn.init.zeros_(self.region_norm.weight)

    def forward(self, batch: Batch, text: TextEmbeddings) -> Embedded:
        if batch.regions is None:
            return super().forward(batch, text)
        features, boxes, present = self.gather(batch.regions)
        joined = torch.cat([self._waves(boxes[present]), features[present]], 1)
        seen = F.relu(self.inward(self.dropout(joined)))
        visual = seen.new_zeros(*present.shape, self.width).masked_scatter(present[..., None], seen)  # [B, R + 1, D]
        last = present & (torch.cumsum(present, 1) == present.sum(1, keepdim=True))
        words, end = None, torch.zeros_like(present[:, 0], dtype=torch.long)
        if batch.text is not None:
            end = self._find_end(batch.text.present, text.max_tokens)
            whole = self.text_norm((visual * last[..., None]).sum(1)) * last.any(1, keepdim=True)
            words = text(batch.text, whole[:, None].expand(*batch.text.present.shape, -1)[batch.text.present])
        word = self.words(last.long())
        if self.mask_word is not None and batch.regions.hidden is not None:
            masked = F.pad(batch.regions.hidden & (batch.regions.read == 0).all(2), (self.before, self.after)) & ~last
            word = torch.where(masked[..., None], self.mask_word.to(word.dtype), word)
        place = end[:, None] + last + text.position_offset
        kind = segment_vector(text, 2, "SpokenRegions")
        vectors = word[present] + self.region_norm(visual[present]) + text.positions(place[present]) + kind
        return Embedded(words, text.finish(vectors))

    @staticmethod
    def _find_end(words: Bool[Tensor, "B L"], most: int) -> Int[Tensor, "B"]:
        """The position behind each text."""
        end = words.sum(1)
        if words.shape[1] + 2 > most and len(end) and int(end.max()) + 2 > most:
            raise ValueError(
                f"SpokenRegions: regions have the two positions behind the text, but after {int(end.max())} tokens there is "
                f"no room in the text tower's max_tokens {most}; lower the data's max_tokens, or raise the tower's"
            )
        return end

    def _waves(self, boxes: Float[Tensor, "N 4"]) -> Float[Tensor, "N waves"]:
        """Centre, width and height in hundredths of the picture, as sines and cosines of wave lengths up to 1000."""
        low, high = boxes[:, :2], boxes[:, 2:]
        numbers = 100 * torch.cat([(low + high) / 2, high - low], 1)
        length = 1000 ** (torch.arange(self.waves, device=boxes.device, dtype=boxes.dtype) / self.waves)
        angles = numbers[..., None] / length
        return torch.cat([angles.sin(), angles.cos()], 2).flatten(1)
