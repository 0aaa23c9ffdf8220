"""Fixtures of labelled files."""

import pytest
from labelled_texts import examples, write


@pytest.fixture
def files(tmp_path):
    """English and German with labels, and French without."""
    bare = [{**line, "label": ""} for line in examples(5, "fr")]
    return {
        "en": write(tmp_path / "en.jsonl", examples(20)),
        "de": write(tmp_path / "de.jsonl", examples(11, "de")),
        "all": write(tmp_path / "all.jsonl", examples(7) + examples(10, "de") + bare),
    }
