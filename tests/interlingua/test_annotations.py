"""What values may be is told in the words of a configuration, never in those of Python."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from interlingua.annotations import describe
from interlingua.datamodules.labelled.layout import Format, Layout
from interlingua.datamodules.labelled.splits import Files
from interlingua.modalities.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "a whole number"),
        (bool | None, "true or false, or null"),
        (list[str] | str | None, "a list of texts or a text, or null"),
        (dict[str, int] | int | None, "a mapping to whole numbers or a whole number, or null"),
        (Files | None, "a text, a list of texts or a mapping to texts or lists of texts, or null"),
        (Mapping[str, str], "a mapping to texts"),
        (Sequence[str], "a list of texts"),
        (dict[str, list[list[str]]], "a mapping to lists of lists of texts"),
        (Literal["mean", "first"], "mean or first"),
        (Literal[64, 32] | Literal["64", "bf16-mixed"] | None, "64, 32 or bf16-mixed, or null"),
        (Layout | None, "class_path of a Layout, or null"),
        (
            Format,
            "class_path of a file format of classified sentences, a file format of tagged words or a file format of questions "
            "on texts",
        ),
        (Any, "anything"),
        ("int", "int"),
    ],
)
def test_annotations_in_words(annotation, words):
    assert describe(annotation) == words


def test_groups_of_options_are_named_by_their_options():
    assert describe(Vocabulary).startswith("a mapping with size, pad, ")
