"""Single stream: text and picture in one sequence, attending to each other in every layer (UNITER, arXiv:1909.11740,
section 3.1; with a picture's own vectors instead of regions as in ViLT, arXiv:2102.03334, section 3.1)."""

from collections.abc import Collection

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from ..modalities.batch import Batch
from .embeddings import TextEmbeddings
from .encoder import Encoder, States
from .packing import Allow, Packing, same_document
from .pooling import pool
from .towers import image_stream, refuse, text_stream
from .transformer import Transformer, initialize


class SingleStream(Encoder):
    """A fused encoder. `joint` is the first text token after a dense layer and tanh, as BERT and UNITER pool."""

    def __init__(self, embeddings: TextEmbeddings, front_end: nn.Module, transformer: Transformer, epsilon: float = 1e-5):
        """
        Args:
            embeddings: Vectors of the tokens.
            front_end: Turns an `Image` into `[B, P, D]`; has `width`.
            transformer: Blocks over text and picture together.
        """
        super().__init__()
        width = transformer.width
        if embeddings.width != width:
            raise ValueError(f"single stream: embeddings have width {embeddings.width}, the transformer {width}")
        self.embeddings, self.front_end, self.transformer = embeddings, front_end, transformer
        self.image_inward = nn.Linear(front_end.width, width)
        self.image_type = nn.Parameter(torch.zeros(width))
        self.image_norm = nn.LayerNorm(width, epsilon)
        self.pooler = nn.Linear(width, width)
        for layer in (self.image_inward, self.pooler):
            initialize(layer)
        self.widths = dict.fromkeys(("text", "translation", "image", "joint"), width)

    @property
    def text_embeddings(self) -> TextEmbeddings:
        return self.embeddings

    @property
    def layers(self) -> int:
        return self.transformer.layers

    def present(self, batch: Batch) -> dict[str, Bool[Tensor, "B _"]]:
        texts = {"text": batch.text, "translation": batch.translation}
        present = {name: text.present for name, text in texts.items() if text is not None}
        if batch.image is not None:
            present["image"] = image_stream(batch.image, self.front_end).present
        return present

    def forward(self, batch: Batch, allow: Allow = same_document, keep: Collection[int] = ()) -> States:
        """A translation is read by itself, without the picture; an objective that joins it to the text does so in its view."""
        refuse(batch, "a single stream", "text", "translation", "image")
        states = self._fuse(batch, allow, keep)
        if batch.translation is not None:
            alone = self._fuse(batch._replace(text=batch.translation, translation=None, image=None), allow, keep)
            layers = {number: one._replace(translation=alone.layers[number].text) for number, one in states.layers.items()}
            states = states._replace(translation=alone.text, layers=layers or alone.layers)
        return states

    def _fuse(self, batch: Batch, allow: Allow, keep: Collection[int]) -> States:
        streams, vectors = {}, []
        if batch.text is not None:
            streams["text"] = text_stream(batch.text)
            vectors.append(self.embeddings(batch.text))
        if batch.image is not None:
            streams["image"] = image_stream(batch.image, self.front_end)
            patches = self.image_inward(self.front_end(batch.image)[streams["image"].present])
            vectors.append(self.embeddings.dropout(self.image_norm(patches + self.image_type)))
        if not streams:
            return States()
        packing = Packing(list(streams.values()))
        rows, kept = self.transformer(packing.place(*vectors), packing.mask(allow), keep)

        def give_back(one: Tensor) -> States:
            return States(**dict(zip(streams, packing.give_back(one), strict=True)))

        states = give_back(rows)
        name, stream = next(iter(streams.items()))
        joint = torch.tanh(self.pooler(pool(getattr(states, name), stream.present, "first")))
        return states._replace(joint=joint, layers={number: give_back(one) for number, one in kept.items()})
