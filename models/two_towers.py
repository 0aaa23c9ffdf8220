"""Two towers: text and pictures meet only as vectors (CLIP, arXiv:2103.00020, section 2.3)."""

from torch import nn

from ..modalities.batch import Batch
from .encoder import Encoder, States, Vectors
from .packing import Allow, same_document
from .pooling import Pooling, pool
from .towers import ImageTower, TextTower, refuse
from .transformer import initialize


class TwoTowers(Encoder):
    """A text tower and an image tower, each with a projection into one shared space."""

    def __init__(self, text: TextTower, image: ImageTower, vector_width: int, pooling: Pooling = "mean"):
        """
        Args:
            text: Reads `text` and `translation`.
            image: Reads `image`.
            vector_width: Width E of the shared space.
            pooling: How a sample's states become one vector before the projection.
        """
        super().__init__()
        self.text, self.image, self.vector_width, self.pooling = text, image, vector_width, pooling
        self.widths = {**text.widths, **image.widths}
        self.text_projection = nn.Linear(text.widths["text"], vector_width, bias=False)
        self.image_projection = nn.Linear(image.widths["image"], vector_width, bias=False)
        for projection in (self.text_projection, self.image_projection):
            initialize(projection)
            nn.init.normal_(projection.weight, std=projection.in_features**-0.5)

    @property
    def vocabulary(self):
        return self.text.vocabulary

    @property
    def tokens(self):
        return self.text.tokens

    @property
    def languages(self) -> int:
        return self.text.languages

    def forward(self, batch: Batch, allow: Allow = same_document) -> States:
        refuse(batch, "two towers", "text", "translation", "image")
        states, vectors = States(), Vectors()
        for name in ("text", "translation"):
            field = getattr(batch, name)
            if field is not None:
                read = self.text.encode(field, allow)
                states = states._replace(**{name: read})
                vectors = vectors._replace(**{name: self.text_projection(pool(read, field.present, self.pooling))})
        if batch.image is not None:
            read, present = self.image.encode(batch.image)
            states = states._replace(image=read)
            vectors = vectors._replace(image=self.image_projection(pool(read, present, self.pooling)))
        return states._replace(vectors=vectors)
