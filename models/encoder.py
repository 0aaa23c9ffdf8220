"""The encoder contract: a batch goes in, states come out under the names of the batch's fields."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..modalities.batch import Batch
from ..modalities.vocabulary import Vocabulary
from .embeddings import TextEmbeddings
from .heads import TokenHead
from .packing import Allow, same_document


class Vectors(NamedTuple):
    """One vector a sample and modality, in a space where they can be compared; not normalised to length 1."""

    text: Float[Tensor, "B E"] | None = None
    translation: Float[Tensor, "B E"] | None = None
    image: Float[Tensor, "B E"] | None = None
    audio: Float[Tensor, "B E"] | None = None


class States(NamedTuple):
    """Encoder output in the batch's shape; zeros where the batch has nothing present."""

    text: Float[Tensor, "B L D"] | None = None
    translation: Float[Tensor, "B L D"] | None = None
    image: Float[Tensor, "B P D"] | None = None
    regions: Float[Tensor, "B R D"] | None = None
    audio: Float[Tensor, "B N D"] | None = None
    codes: Float[Tensor, "B N D"] | None = None
    joint: Float[Tensor, "B D"] | None = None
    """One vector a sample that has seen all of its fused modalities (a fused encoder's pooled first token)."""
    vectors: Vectors = Vectors()
    """Projected vectors, from encoders that compare modalities instead of fusing them."""
    layers: Mapping[int, "States"] = MappingProxyType({})
    """States of the streams after some blocks (0: before the first), where they were asked for."""


class Encoder(nn.Module):
    """What objectives and tasks may ask of an encoder. Two contracts hold the platform together; this is one.

    Attributes:
        widths: Width D of the states of each stream that this encoder can read, by the names of `States`
            (`text`, `translation`, `image`, ... and `joint`).
        vector_width: Width E of `States.vectors`, None where the encoder makes none.
    """

    widths: Mapping[str, int]
    vector_width: int | None = None

    @property
    def text_embeddings(self) -> TextEmbeddings | None:
        """Embeddings of the text stream, None without one: the next four properties are read off them."""
        return None

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Size and control ids of the text vocabulary, None without a text stream."""
        return None if self.text_embeddings is None else self.text_embeddings.vocabulary

    @property
    def tokens(self) -> nn.Embedding | None:
        """The token embedding table `[V, D]`, for heads that share it."""
        return None if self.text_embeddings is None else self.text_embeddings.tokens

    @property
    def languages(self) -> int:
        """Number of languages the text embeddings know; 0 where they do not read language ids."""
        table = None if self.text_embeddings is None else self.text_embeddings.languages
        return 0 if table is None else table.num_embeddings

    @property
    def max_tokens(self) -> int | None:
        """Longest text that it reads, None without a text stream."""
        return None if self.text_embeddings is None else self.text_embeddings.max_tokens

    @property
    def layers(self) -> int | None:
        """Number of blocks that states of the text stream pass through: the last number to `keep`. None without a text stream,
        or where it is not known."""
        return None

    def token_head(self, stream: str) -> TokenHead:
        """A new head that scores vocabulary entries from the states of a stream, as the text embeddings' family does.

        Args:
            stream: `text` or `translation`, or another stream whose states tell of tokens.

        Raises:
            ValueError: The encoder does not read that stream, or has no text embeddings.
        """
        embeddings = self.text_embeddings
        if stream not in self.widths or embeddings is None:
            raise ValueError(
                f"predicting tokens needs an encoder that reads {stream} with a token table; {type(self).__name__} reads "
                f"{', '.join(self.widths)}"
            )
        return TokenHead(embeddings.tokens, self.widths[stream], embeddings.epsilon, plain=embeddings.head == "plain")

    def present(self, batch: Batch) -> dict[str, Bool[Tensor, "B _"]]:
        """Which positions of each stream will have states, known without reading: what marks may be laid over."""
        raise NotImplementedError

    def forward(self, batch: Batch, allow: Allow = same_document, keep: Collection[int] = ()) -> States:
        """Read a batch, its marks included.

        Args:
            batch: Any batch; modalities that this encoder has no stream for are an error, absent ones are not.
            allow: Which positions may attend to which, within a sample (see `packing`).
            keep: Numbers of blocks after which the states are wanted in `States.layers` too.
        """
        raise NotImplementedError
