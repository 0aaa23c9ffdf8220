"""Text embeddings: token, position, language and segment vectors, summed, normed and dropped out."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from ..modalities.batch import Text
from ..modalities.vocabulary import Vocabulary
from .table_gradients import look_up
from .transformer import initialize


class TextEmbeddings(nn.Module):
    """One vector a present token. BERT section 3.2; the language vectors are XLM's (arXiv:1901.07291, section 3.1)."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        width: int,
        max_tokens: int,
        languages: int = 0,
        segments: int = 0,
        position_offset: int = 0,
        norm: bool = True,
        dropout: float = 0.1,
        epsilon: float = 1e-5,
        factor: int | None = None,
        head: Literal["transform", "plain"] = "transform",
    ):
        """
        Args:
            vocabulary: Size and control ids, as the tokenizer's (they shake hands at start).
            width: Width D of the vectors.
            max_tokens: Longest text, in tokens with start and end.
            languages: Number of language vectors; 0: language ids are not read.
            segments: Number of segment vectors; 0: segments are not read. With one, as in XLM-R, every token gets it, whichever
                half of a pair it is in.
            position_offset: Rows of the position table before position 0 (pad id + 1 in XLM-R's layout).
            norm: Whether a layer norm follows the sum (not in pre-norm towers such as XLM-R XL).
            dropout: Rate on the vectors, after the norm.
            epsilon: Of the norm.
            factor: Width E of all tables, where it is not D: the sum is normed at width E and led to D by a linear layer
                (ALBERT, arXiv:1909.11942, section 3.1). None: D.
            head: How states are scored against the token table: `transform` through a dense layer, GELU and norm first
                (BERT, XLM-R), `plain` by the table and a bias alone (XLM's released code).

        Raises:
            ValueError: A plain head over factorised tables, which are narrower than the states.
        """
        super().__init__()
        if head not in ("transform", "plain"):
            raise ValueError(f"text embeddings: head must be 'transform' or 'plain', found {head!r}")
        if head == "plain" and factor not in (None, width):
            raise ValueError(
                f"text embeddings: a plain head scores states of width {width} against tables of width {factor}; "
                "use head='transform', or leave factor out"
            )
        inner = width if factor is None else factor
        self.vocabulary, self.width, self.max_tokens, self.position_offset = vocabulary, width, max_tokens, position_offset
        self.head, self.epsilon = head, epsilon
        self.tokens = nn.Embedding(vocabulary.size, inner)
        self.positions = nn.Embedding(max_tokens + position_offset, inner)
        self.languages = nn.Embedding(languages, inner) if languages else None
        self.segments = nn.Embedding(segments, inner) if segments else None
        self.norm = nn.LayerNorm(inner, epsilon) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.outward = nn.Identity() if factor is None else nn.Linear(inner, width)
        self.apply(initialize)

    def forward(self, text: Text, beside: Float[Tensor, "tokens E"] | None = None) -> Float[Tensor, "tokens D"]:
        """Vectors of the present tokens, in the batch's order.

        Args:
            text: Whose tokens.
            beside: Further vectors that are added before the norm.

        Raises:
            ValueError: A text is longer than `max_tokens`.
        """
        present = text.present
        self._check(text)
        vectors = look_up(self.tokens.weight, text.read[present])
        vectors = vectors + self.positions(text.position[present] + self.position_offset)
        if self.languages is not None:
            vectors = vectors + self.languages(text.language[present])
        if self.segments is not None:
            segment = text.segment[present]
            vectors = vectors + self.segments(segment if self.segments.num_embeddings > 1 else 0 * segment)
        return self.finish(vectors if beside is None else vectors + beside)

    def finish(self, vectors: Float[Tensor, "N E"]) -> Float[Tensor, "N D"]:
        """What comes after the sum, here and for others that join it: norm and dropout."""
        return self.outward(self.dropout(self.norm(vectors)))

    def _check(self, text: Text) -> None:
        # The look at the positions waits for the device: only rows that are long enough to be wrong pay for it.
        if text.tokens.shape[1] > self.max_tokens and text.present.any():
            longest = int(text.position[text.present].max()) + 1
            if longest > self.max_tokens:
                raise ValueError(
                    f"text of {longest} tokens, but this tower reads at most max_tokens = {self.max_tokens} "
                    f"(position table of {self.positions.num_embeddings} rows less {self.position_offset}); "
                    "lower the data's max_tokens or build the tower with more"
                )
