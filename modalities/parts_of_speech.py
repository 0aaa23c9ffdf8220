"""Names that people give to words."""

_OPEN, _CLOSED = "ADJ ADV INTJ NOUN PROPN VERB", "ADP AUX CCONJ DET NUM PART PRON SCONJ"
UNIVERSAL = frozenset(f"{_OPEN} {_CLOSED} PUNCT SYM X".split())
"""The parts of speech of Universal Dependencies, version 2 (UPOS)."""
