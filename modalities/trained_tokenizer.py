"""Which tokenizer a checkpoint was trained with: kept in it, and compared wherever it meets a tokenizer.

Another vocabulary of the same size would give every id another piece, and nothing but the figures would tell.
"""

from typing import Any

from .tokenizer import Tokenizer

KEY = "tokenizer"
"""Where a checkpoint says it."""


def identify(tokenizer: Tokenizer) -> dict[str, Any]:
    """What a checkpoint keeps of its tokenizer, in plain containers."""
    return {
        "hash": tokenizer.hash,
        "pieces": tokenizer.pieces_hash,
        "languages": list(tokenizer.languages),
        "path": str(tokenizer.path),
    }


def check_trained(kept: Any, tokenizer: Tokenizer, checkpoint: str, by_language: bool, mend: str) -> str | None:
    """Refuse a tokenizer that is not the one a checkpoint was trained with.

    Languages may be others, or in another order, where nothing was trained by their ids.

    Args:
        kept: What the checkpoint holds under `KEY`; None where it is older than that.
        tokenizer: What would number its pieces now.
        checkpoint: Its file, for messages.
        by_language: Whether the encoder has language vectors.
        mend: What helps, for the message.

    Returns:
        What to say of a checkpoint that does not tell; None where all is well.

    Raises:
        ValueError: It is another one; names both.
    """
    if not isinstance(kept, dict) or "pieces" not in kept:
        return (
            f"note: {checkpoint} does not say which tokenizer it was trained with (it was written by an earlier version): see "
            f"that {tokenizer.path} is the one"
        )
    if kept["pieces"] != tokenizer.pieces_hash:
        raise ValueError(
            f"{checkpoint} was trained with another tokenizer: {kept['path']} had hash {kept['hash'][:12]} then, "
            f"{tokenizer.path} has {tokenizer.hash[:12]}, so that equal ids mean different pieces; {mend}"
        )
    if by_language and kept["languages"] != list(tokenizer.languages):
        raise ValueError(
            f"{checkpoint} was trained with other languages: its language vectors are of {', '.join(kept['languages'])}, but "
            f"{tokenizer.path} numbers {', '.join(tokenizer.languages)}; {mend}"
        )
    return None
