"""Files of the published families: which are enough, what is written, what the hash covers, what must be installed."""

import pickle
import shutil
from pathlib import Path

import pytest
from imported import FAMILIES, Published, import_all, of_data, rows
from published import HOSTILE, XLM_LANGUAGES, of_xlm

from interlingua.modalities.tokenizer import Tokenizer
from interlingua.modalities.tokenizer_import import import_tokenizer


@pytest.fixture(scope="module")
def published(data) -> dict[str, Published]:
    return import_all(data)


def test_xlm_reads_its_own_files_as_hugging_face_s(published, tmp_path):
    folder, tokenizer = published["xlm"]
    options = {"languages": XLM_LANGUAGES, "report": lambda line: None}
    own = import_tokenizer(folder.parent, "xlm", tmp_path / "own.json", **options)
    assert own.hash == tokenizer.hash
    assert import_tokenizer(folder.parent / "codes_small", "xlm", tmp_path / "two.json", **options).hash == tokenizer.hash
    assert own.languages == tokenizer.languages == XLM_LANGUAGES  # the order of lang2id, not of the file


def test_tokenizer_json_alone_is_enough(published, data, tmp_path):
    """What transformers 5 saves of a checkpoint."""
    from transformers import BertTokenizer, XLMRobertaTokenizer

    texts = of_data(data)[::3] + HOSTILE
    for name, family, kind in (
        ("xlm-roberta", "xlm-roberta", XLMRobertaTokenizer),
        ("bert", "bert", BertTokenizer),
        ("uncased", "bert", BertTokenizer),
    ):
        folder, tokenizer = published[name]
        kind.from_pretrained(str(folder)).save_pretrained(str(tmp_path / name))
        assert not (tmp_path / name / "vocab.txt").exists()
        again = import_tokenizer(tmp_path / name, family, tmp_path / f"{name}.json", ["en"], report=lambda line: None)
        assert again.vocabulary == tokenizer.vocabulary
        assert rows(again, texts) == rows(tokenizer, texts)
        with pytest.raises(ValueError, match=r"is Hugging Face's; take it over first: `interlingua tokenizer import"):
            Tokenizer(tmp_path / name / "tokenizer.json")


@pytest.mark.parametrize("name", FAMILIES)
def test_pickle_needs_no_files_and_copies_may_be_moved(published, data, name, tmp_path):
    before = published[name].tokenizer
    place = Path(before.path).parent
    for file in place.glob(f"{name}.*"):
        shutil.copy(file, tmp_path / file.name.replace(name, "moved.twice"))
    moved = Tokenizer(tmp_path / "moved.twice.json")
    packed = pickle.dumps(moved)
    for file in tmp_path.iterdir():
        file.unlink()
    after = pickle.loads(packed)
    assert (after.hash, after.languages, after.vocabulary) == (before.hash, before.languages, before.vocabulary)
    texts = [text for _, text in of_xlm(data)[::20]]
    assert rows(after, texts) == rows(before, texts)
    assert not after.byte_pieces.any()
    assert (after.has_piece("a"), after.has_piece("\U00010348")) == (True, False)


def test_the_hash_covers_all_that_decides_ids(published, tmp_path):
    def imported(source: Path, family: str, **options) -> str:
        options = {"languages": ["en", "de"], "report": lambda line: None, "force": True} | options
        return import_tokenizer(source, family, tmp_path / "some.json", **options).hash

    bert, xlm = published["bert"].folder, published["xlm"].folder
    lines = (bert / "vocab.txt").read_text(encoding="utf-8")
    changed = tmp_path / "vocab.txt"
    changed.write_text(lines.replace("[unused7]", "[unused777]"), encoding="utf-8")
    hashes = [
        imported(bert, "bert"),
        imported(bert, "bert", languages=["de", "en"]),
        imported(bert, "bert", lower_case=True),
        imported(changed, "bert", lower_case=False),
        imported(xlm, "xlm", languages=None),
        imported(xlm, "xlm", languages=None, lower_case=False),
        imported(xlm, "xlm", languages=None, preset="xlm_hf"),
    ]
    assert len(set(hashes)) == len(hashes)
    assert imported(bert, "bert") == hashes[0]


@pytest.mark.parametrize(
    ("name", "module", "extra"), [("bert", "tokenizers", "bert"), ("xlm", "tokenizers", "bert"), ("xlm", "sacremoses", "xlm")]
)
def test_what_is_not_installed_is_told_with_the_command(published, monkeypatch, name, module, extra):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {module}: pip install interlingua\[{extra}\]"):
        Tokenizer(published[name].tokenizer.path)
