"""The front door: fast, and plain about what it does not know."""

import os
import signal
import subprocess
import sys
from importlib import import_module

import pytest

from interlingua import __version__
from interlingua.__main__ import COMMANDS, main


def cpu_seconds(*arguments: str) -> float:
    """CPU seconds of one Python process, start-up included."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_start_within_twice_a_bare_interpreter(option):
    pairs = [(cpu_seconds("-c", "pass"), cpu_seconds("-m", "interlingua", option)) for _ in range(9)]
    bare, ours = map(min, zip(*pairs, strict=True))
    assert ours < 2 * bare


def test_nothing_heavy_is_imported_for_help():
    code = (
        "import sys; from interlingua.__main__ import main; main(['--help']); main(['fit', '--help']);"
        "sys.exit(bool({'torch', 'lightning', 'jsonargparse', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "usage: interlingua fit" in done.stdout


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown and line in shown for name, (line, _) in COMMANDS.items())


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"interlingua {__version__}\n"


def test_unknown_command_is_one_line_with_the_nearest(capsys):
    assert main(["tokeniser", "train"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "interlingua: no command 'tokeniser'; the nearest is 'tokenizer' (interlingua --help)"
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name):
    module, _, function = COMMANDS[name][1].partition(":")
    assert callable(getattr(import_module(module), function))


def interrupted(argv):
    """A command that its user stops."""
    signal.raise_signal(signal.SIGINT)


def test_interrupt_is_quiet(monkeypatch, capsys):
    monkeypatch.setitem(COMMANDS, "wait", ("", f"{__name__}:interrupted"))
    assert main(["wait"]) == 130
    assert capsys.readouterr() == ("", "")


def test_reader_that_goes_away_is_quiet():
    process = subprocess.Popen(
        [sys.executable, "-m", "interlingua", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == ""
    assert process.wait() == 141


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_closed_output_is_no_fault(option):
    command = f"{sys.executable} -m interlingua {option} >&-"
    found = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_a_terminal_without_our_scripts_shows_codes(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run(
        [sys.executable, "-m", "interlingua", "schärds"], capture_output=True, text=True, env=environment, check=False
    )
    assert found.returncode == 2
    assert "sch\\xe4rds" in found.stderr


def test_a_reader_that_goes_away_is_no_fault(tmp_path):
    from interlingua.datamodules.sample import Caption
    from interlingua.datamodules.shards import ShardWriter

    with ShardWriter(tmp_path) as writer:
        for number in range(2000):
            writer.write(f"{number}", [Caption("en", "a dog " * 20)])
    command = f"{sys.executable} -m interlingua shards show {tmp_path} -n 2000 | head -1"
    found = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (found.stdout.count("\n"), found.stderr) == (1, "")
