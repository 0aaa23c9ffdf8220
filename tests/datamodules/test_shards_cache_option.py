"""`--cache` of the commands that read remote shards."""

import pytest
from remote_stores import SHARDS
from trained import small_tokenizer

from interlingua import tokenizer_command
from interlingua.datamodules.shards import command

pytestmark = pytest.mark.usefixtures("quick")


def run(main, *argv):
    return main([str(argument) for argument in argv])


def fetched(folder):
    return {path.name for path in folder.glob("tars/*/*.tar")}


@pytest.mark.parametrize("name", ["check", "show", "stats", "index", "align"])
def test_shards_are_kept_where_it_says(server, tmp_path, name):
    mine = tmp_path / "mine"
    more = {"align": [tmp_path / "out", "--languages", "en", "de"], "stats": ["--output", tmp_path / "page"]}
    for index in server.folder.glob("*.index"):
        index.unlink()  # then they are fetched, to be indexed
    assert run(command.main, name, server.url, *more.get(name, []), "--cache", mine) in (0, 1)  # check: they are no pictures
    assert len(fetched(mine)) == SHARDS
    assert not list(tmp_path.glob("cache/**/*.tar"))


@pytest.mark.parametrize("name", ["train", "counts", "check"])
def test_so_are_those_that_a_tokenizer_is_made_or_checked_with(server, data, tmp_path, name):
    model = small_tokenizer(data).path
    argv = {
        "train": ["train", "--output", tmp_path / "t.model", "--size", 280],
        "counts": ["counts", model, "--output", tmp_path / "c.json"],
        "check": ["check", model],
    }[name]
    assert run(tokenizer_command.main, *argv, "--shards", server.url, "--cache", tmp_path / "mine") in (
        0,
        1,
    )  # digits are unknown
    assert len(fetched(tmp_path / "mine")) == SHARDS
    assert not list(tmp_path.glob("cache/**/*.tar"))


def test_a_cache_that_cannot_be_meant(server, tmp_path, capsys):
    for options, message in (
        (["--cache-gigabytes", 0], "--cache-gigabytes is 0; expected more than 0"),
        (["--cache-gigabytes", "nan"], "--cache-gigabytes is nan; expected more than 0"),
        (["--cache", ""], "--cache is empty (an unset variable?); expected a folder"),
        (["--cache", tmp_path / "mine", "--cache-gigabytes", 1e-6], f"the cache {tmp_path / 'mine'} is limited to 1e-06"),
    ):
        assert run(command.main, "index", server.url, *options) == 2
        assert message in capsys.readouterr().err
