"""Dictionaries of pieces: their file."""

import numpy as np
import pytest

from interlingua.modalities.dictionary import Dictionary, read_dictionary, write_dictionary


def some(**changes):
    whole = Dictionary(
        "abc",
        np.array([0, 1, 1]),
        np.array([0, 1, 3, 4]),
        np.array([5, 6, 7, 8]),
        np.array([0, 0, 1, 0]),
        np.array([[0, 1], [0, 2], [1, 0]]),
        np.arange(10) == 9,
    )
    return whole._replace(**changes)


def test_a_file_holds_the_dictionary_and_who_cut_it(tmp_path):
    path = tmp_path / "folder" / "some.npz"
    write_dictionary(some(), path)
    back = read_dictionary(str(path))
    assert back.tokenizer == "abc"
    for name in Dictionary._fields[1:]:
        assert (getattr(back, name) == getattr(some(), name)).all()
        assert getattr(back, name).dtype == (bool if name == "punctuation" else np.int64)
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays) == {*Dictionary._fields, "format"}


@pytest.mark.parametrize(
    "changes",
    [
        {"start": np.array([0, 1, 3])},
        {"start": np.array([0, 1, 1, 4])},
        {"start": np.array([0, 1, 3, 5])},
        {"pairs": np.array([[0, 3]])},
        {"pairs": np.array([0, 1])},
        {"pieces": np.array([5, 6, 7, 10])},
        {"word": np.array([0, 0, 1])},
        {"word": np.array([0, 0, -1, 0])},
        {"language": np.array([0, -1, 1])},
        {"pairs": np.zeros((0, 2), int)},
    ],
)
def test_refuses_parts_that_do_not_belong_together(changes, tmp_path):
    write_dictionary(some(**changes), tmp_path / "some.npz")
    with pytest.raises(ValueError, match=r"some.npz does not hold a dictionary .*`interlingua tokenizer dictionary`"):
        read_dictionary(tmp_path / "some.npz")


def test_refuses_other_files(tmp_path):
    with pytest.raises(ValueError, match=r"dictionary .* is a folder; give the .npz in it"):
        read_dictionary(tmp_path)
    path = tmp_path / "other.npz"
    with pytest.raises(FileNotFoundError, match=r"other.npz does not exist; `interlingua tokenizer dictionary` writes it"):
        read_dictionary(path)
    np.savez(path, tokenizer=np.array("a"))
    contents = [path.read_bytes(), b"", b"PK\x03\x04 cut", b"plain text"]
    np.save(tmp_path / "one.npy", np.arange(3))
    contents.append((tmp_path / "one.npy").read_bytes())
    write_dictionary(some(), path)
    contents.append(path.read_bytes()[:-200])
    np.savez(path, **{**some()._asdict(), "format": np.array(2)})
    contents.append(path.read_bytes())
    np.savez(path, **{**some()._asdict(), "format": np.array(1), "pieces": np.array([{"an": "object"}] * 4)})
    contents.append(path.read_bytes())
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"other.npz does not hold a dictionary of format 1"):
            read_dictionary(path)
