"""A SentencePiece model from its pieces, for checkpoints that keep them in Hugging Face's form alone."""

from collections.abc import Sequence

from .cutters.xlm_roberta import OF_MODEL


def write_model(pieces: Sequence[tuple[str, float]], characters: bytes) -> bytes:
    """A unigram model of XLM-R's kind.

    Args:
        pieces: Each with its log probability, without control tokens.
        characters: SentencePiece's compiled map of characters, by which it normalises; empty: it changes none.

    Returns:
        The model as bytes, as `sentencepiece` reads it.
    """
    from sentencepiece import sentencepiece_model_pb2 as protocol

    kinds = protocol.ModelProto.SentencePiece
    model = protocol.ModelProto()
    for piece, kind in zip(OF_MODEL, (kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL), strict=True):
        model.pieces.add(piece=piece, score=0.0, type=kind)
    for piece, score in pieces:
        model.pieces.add(piece=piece, score=score, type=kinds.NORMAL)
    model.trainer_spec.model_type = protocol.TrainerSpec.UNIGRAM
    model.trainer_spec.vocab_size = len(model.pieces)
    model.normalizer_spec.name = "nmt_nfkc" if characters else "identity"
    model.normalizer_spec.precompiled_charsmap = characters
    return model.SerializeToString()
