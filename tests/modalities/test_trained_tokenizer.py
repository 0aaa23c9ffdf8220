"""Which tokenizer a checkpoint was trained with, against the one that it meets."""

import json
import shutil
from pathlib import Path

import pytest
from trained import small_tokenizer

from interlingua.modalities.tokenizer import Tokenizer
from interlingua.modalities.trained_tokenizer import check_trained, identify


@pytest.fixture
def more_languages(data, tmp_path):
    """The small tokenizer, and the same with a language more."""
    tokenizer = small_tokenizer(data)
    for ending in (".model", ".json"):
        shutil.copy(Path(tokenizer.path).with_suffix(ending), tmp_path / f"more{ending}")
    card = json.loads((tmp_path / "more.json").read_text())
    (tmp_path / "more.json").write_text(json.dumps({**card, "languages": [*card["languages"], "it"]}))
    return tokenizer, Tokenizer(tmp_path / "more.json")


def test_languages_matter_where_there_are_vectors_of_them(more_languages):
    tokenizer, more = more_languages
    assert (tokenizer.hash != more.hash, tokenizer.pieces_hash == more.pieces_hash) == (True, True)
    kept = json.loads(json.dumps(identify(tokenizer)))
    assert check_trained(kept, tokenizer, "x.ckpt", True, "mend it") is None
    assert check_trained(kept, more, "x.ckpt", False, "mend it") is None
    with pytest.raises(ValueError, match=r"x\.ckpt was trained with other languages: .* of ar, de, .*, it; mend it"):
        check_trained(kept, more, "x.ckpt", True, "mend it")


def test_other_pieces_are_refused_and_older_checkpoints_noted(data):
    tokenizer = small_tokenizer(data)
    kept = {**identify(tokenizer), "pieces": "0", "path": "old.model"}
    with pytest.raises(ValueError, match=rf"x\.ckpt .* another tokenizer: old\.model had .*{tokenizer.path} has .*; mend it"):
        check_trained(kept, tokenizer, "x.ckpt", False, "mend it")
    assert "x.ckpt does not say which tokenizer" in check_trained(None, tokenizer, "x.ckpt", False, "mend it")
