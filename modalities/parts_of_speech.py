"""Names that people give to words."""

UNIVERSAL = frozenset(
    ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN")
    + ("PUNCT", "SCONJ", "SYM", "VERB", "X")
)
"""The parts of speech of Universal Dependencies, version 2 (UPOS)."""
