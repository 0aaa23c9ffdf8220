"""Field maps in files."""

import pytest

from interlingua.datamodules.shards.command import main


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text: []", "a field map has image, texts, item, members, ignore, require; found text"),
        ("- a", 'a field map is a mapping with any of image, texts, item, members, ignore, require; found a list (["a"])'),
        ("texts: [{path: a}]", "each of `texts` needs `member`, the extension of the member that has the text; found path"),
        ("texts: [{member: txt, lang: en}]", "language_path, role, by_language; found lang"),
        ("texts: [txt]", "each of `texts` is a mapping with any of member, path, language, language_path, role, by_language;"),
        (
            "texts: [{member: txt, language: no}]",
            "`language` must be a text (words such as no, on or 5 stand in quotes), found",
        ),
        ("texts: [{member: json, path: a, by_language: 3}]", "`by_language` must be true or false, found 3"),
        ("image: 5", "`image` must be a list of texts (words such as no, on or 5 stand in quotes), found 5"),
        ("texts: null", "`texts` must be a list, found null"),
        ("item: 5", "`item` must be a text (words such as no, on or 5 stand in quotes), found 5"),
        ("a: b: c", "not YAML (line 1: mapping values are not allowed here)"),
    ],
)
def test_what_is_no_field_map_is_told_in_its_own_words(tmp_path, capsys, content, message):
    (tmp_path / "map.yaml").write_text(content)
    assert main(["check", str(tmp_path), "--map", str(tmp_path / "map.yaml")]) == 2
    error = capsys.readouterr().err
    assert "map.yaml: not a field map: " in error
    assert message in error
    assert error.count("\n") == 1
