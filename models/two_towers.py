"""Two towers: modalities meet only as vectors (CLIP, arXiv:2103.00020, section 2.3)."""

from collections.abc import Collection

from jaxtyping import Bool
from torch import Tensor, nn

from ..modalities.batch import Batch
from .embeddings import TextEmbeddings
from .encoder import Encoder, States, Vectors
from .packing import Allow, same_document
from .pooling import Pooling, pool
from .towers import TextTower, refuse


class TwoTowers(Encoder):
    """A text tower beside a tower of pictures, or of sound, or of each, with a projection of every one into a shared space."""

    def __init__(
        self,
        text: TextTower,
        image: Encoder | None = None,
        audio: Encoder | None = None,
        vector_width: int = 512,
        pooling: Pooling = "mean",
    ):
        """
        Args:
            text: Reads `text` and `translation`.
            image: Reads `image`.
            audio: Reads `audio`.
            vector_width: Width E of the shared space.
            pooling: How a sample's states become one vector before the projection.
        """
        super().__init__()
        if vector_width < 1:
            raise ValueError(f"two towers: vector_width is {vector_width}; vectors need a width of 1 or more")
        self.text, self.image, self.audio = text, image, audio
        self.vector_width, self.pooling = vector_width, pooling
        self.streams = {"text": text, "translation": text}
        self.streams.update({name: tower for name, tower in (("image", image), ("audio", audio)) if tower is not None})
        self.widths = {name: tower.widths[name] for name, tower in self.streams.items()}
        self.projections = nn.ModuleDict(
            {name: nn.Linear(width, vector_width, bias=False) for name, width in self.widths.items() if name != "translation"}
        )
        for projection in self.projections.values():
            nn.init.normal_(projection.weight, std=projection.in_features**-0.5)

    @property
    def text_embeddings(self) -> TextEmbeddings | None:
        return self.text.text_embeddings

    @property
    def layers(self) -> int:
        return self.text.layers

    def present(self, batch: Batch) -> dict[str, Bool[Tensor, "B _"]]:
        return {name: self.streams[name].present(only(batch, name))[name] for name in self._given(batch)}

    def forward(self, batch: Batch, allow: Allow = same_document, keep: Collection[int] = ()) -> States:
        refuse(batch, "this dual encoder", *self.streams)
        present = self.present(batch)
        states, vectors, layers = States(), Vectors(), {number: States() for number in keep}
        for name in self._given(batch):
            read = self.streams[name](only(batch, name), allow, keep)
            own = getattr(read, name)
            states = states._replace(**{name: own})
            pooled = pool(own, present[name], self.pooling)
            vectors = vectors._replace(**{name: self.projections["text" if name == "translation" else name](pooled)})
            for number, kept in read.layers.items():
                layers[number] = layers[number]._replace(**{name: getattr(kept, name)})
        return states._replace(vectors=vectors, layers=layers)

    def _given(self, batch: Batch) -> list[str]:
        return [name for name in self.streams if getattr(batch, name) is not None]


def only(batch: Batch, name: str) -> Batch:
    """The batch with one of its modalities alone."""
    others = dict.fromkeys(set(States._fields[:6]) - {name})
    return batch._replace(**others)
