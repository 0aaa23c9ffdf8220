"""Towers: encoders of one modality."""

from collections.abc import Collection

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..modalities.batch import Batch, Image, Text
from .embeddings import TextEmbeddings
from .encoder import Encoder, States
from .packing import Allow, Packing, Stream, same_document
from .transformer import Transformer


class TextTower(Encoder):
    """A text encoder: mBERT, XLM-R and XLM are this with other embeddings, norms and sizes."""

    def __init__(self, embeddings: TextEmbeddings, transformer: Transformer):
        """
        Args:
            embeddings: Vectors of the tokens.
            transformer: Of the embeddings' width.
        """
        super().__init__()
        if embeddings.width != transformer.width:
            raise ValueError(f"text tower: embeddings have width {embeddings.width}, the transformer {transformer.width}")
        self.embeddings, self.transformer = embeddings, transformer
        self.widths = {"text": transformer.width, "translation": transformer.width}

    @property
    def text_embeddings(self) -> TextEmbeddings:
        return self.embeddings

    @property
    def layers(self) -> int:
        return self.transformer.layers

    def encode(
        self, text: Text, allow: Allow = same_document, keep: Collection[int] = ()
    ) -> tuple[Float[Tensor, "B L D"], dict[int, Float[Tensor, "B L D"]]]:
        """States of one text a sample, and the kept ones of lower layers."""
        return self.encode_vectors(text, self.embeddings(text), allow, keep)

    def encode_vectors(
        self, text: Text, vectors: Float[Tensor, "tokens D"], allow: Allow = same_document, keep: Collection[int] = ()
    ) -> tuple[Float[Tensor, "B L D"], dict[int, Float[Tensor, "B L D"]]]:
        """As `encode`, of other vectors than the text's own.

        Args:
            text: Says where there are tokens and which may see each other; ids, languages and positions are not looked at.
            vectors: What is read: one vector a present token, in the batch's order, as the embeddings make them.
            allow, keep: As of `forward`.
        """
        packing = Packing([text_stream(text)])
        rows, kept = self.transformer(packing.place(vectors), packing.mask(allow), keep)
        return packing.give_back(rows)[0], {number: packing.give_back(one)[0] for number, one in kept.items()}

    def present(self, batch: Batch) -> dict[str, Bool[Tensor, "B _"]]:
        texts = {"text": batch.text, "translation": batch.translation}
        return {name: text.present for name, text in texts.items() if text is not None}

    def forward(self, batch: Batch, allow: Allow = same_document, keep: Collection[int] = ()) -> States:
        refuse(batch, "a text tower", "text", "translation")
        texts = {"text": batch.text, "translation": batch.translation}
        read = {name: self.encode(text, allow, keep) for name, text in texts.items() if text is not None}
        return States(
            **{name: states for name, (states, _) in read.items()},
            layers={number: States(**{name: kept[number] for name, (_, kept) in read.items()}) for number in keep},
        )


class ImageTower(Encoder):
    """A picture encoder: any front end, and blocks over its vectors where there are any (ViT, arXiv:2010.11929)."""

    def __init__(self, front_end: nn.Module, transformer: Transformer | None = None):
        """
        Args:
            front_end: Turns an `Image` into `[B, P, D]` (see `modalities.image_front_ends`); has `width`.
            transformer: Blocks over the front end's vectors, of its width; None: the front end is the whole tower.
        """
        super().__init__()
        if transformer is not None and front_end.width != transformer.width:
            raise ValueError(f"image tower: front end has width {front_end.width}, the transformer {transformer.width}")
        self.front_end, self.transformer = front_end, transformer
        self.widths = {"image": front_end.width}

    def encode(
        self, image: Image, keep: Collection[int] = ()
    ) -> tuple[Float[Tensor, "B P D"], dict[int, Float[Tensor, "B P D"]]]:
        """States of one picture a sample, and the kept ones of lower layers."""
        vectors, stream = self.front_end(image), image_stream(image, self.front_end)
        if self.transformer is None:
            return vectors * stream.present[..., None], {}
        packing = Packing([stream])
        rows, kept = self.transformer(packing.place(vectors[stream.present]), packing.mask(same_document), keep)
        return packing.give_back(rows)[0], {number: packing.give_back(one)[0] for number, one in kept.items()}

    def present(self, batch: Batch) -> dict[str, Bool[Tensor, "B _"]]:
        return {} if batch.image is None else {"image": image_stream(batch.image, self.front_end).present}

    def forward(self, batch: Batch, allow: Allow = same_document, keep: Collection[int] = ()) -> States:
        refuse(batch, "an image tower", "image")
        if batch.image is None:
            return States()
        states, kept = self.encode(batch.image, keep)
        return States(image=states, layers={number: States(image=one) for number, one in kept.items()})


def text_stream(text: Text) -> Stream:
    """What the packer and the attention rule must know of a text."""
    return Stream(text.present, text.document, text.segment, text.hidden)


def image_stream(image: Image, front_end: nn.Module) -> Stream:
    """What the packer and the attention rule must know of a picture's vectors."""
    count = front_end.count(*image.pixels.shape[2:])
    return Stream(image.present[:, None].expand(-1, count), hidden=image.hidden)


def refuse(batch: Batch, who: str, *streams: str) -> None:
    """Raise ValueError if the batch has a modality that an encoder has no stream for."""
    unread = [name for name in States._fields[:6] if name not in streams and getattr(batch, name) is not None]
    if unread:
        raise ValueError(
            f"source {batch.source!r} has {' and '.join(unread)}, but {who} reads only {' and '.join(streams)}; "
            "choose an encoder with that stream or leave the modality out of the source"
        )
