"""What is built installs as `interlingua` alone, with its data, and is not mistaken for its neighbours."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("modalities", "models", "tasks", "datamodules", "configs")
WHERE = "import interlingua.models as m, interlingua.configs as c; print(m.__file__); print(c.__file__)"


def run(*command, **options):
    """Standard output of a command that must succeed, run without our own PYTHONPATH."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "COVERAGE_PROCESS_START")}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The sources as a clone has them."""
    copy = tmp_path_factory.mktemp("clone") / "checkout"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("interlingua", *FOLDERS):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def environment(folder):
    """A fresh environment over the dependencies installed here, and its interpreter."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # A path line adds the folder alone: links to editable installs in it are not followed.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python, packages


@pytest.fixture(scope="module")
def installed(clone, tmp_path_factory):
    """A fresh environment with the wheel in it: its interpreter and its packages."""
    built = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", built, clone)  # the wheel comes from the sdist
    (wheel,) = built.glob("*.whl")
    python, packages = environment(tmp_path_factory.mktemp("environment"))
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    return python, packages


@pytest.fixture
def neighbours(tmp_path):
    """A user's project with folders named like ours."""
    for name in ("models", "tasks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong package was imported')")
    return tmp_path


def test_only_interlingua_lands_at_the_top(installed):
    _, packages = installed
    names = {path.name for path in packages.iterdir()} - {"dependencies.pth"}
    assert {name for name in names if not name.endswith(".dist-info")} == {"interlingua"}


def test_everything_is_carried(installed, clone):
    _, packages = installed
    kinds = {".py", ".yaml", ".html", ".webp", ".gz", ".typed"}
    expected = {
        path.relative_to(clone / "interlingua" if folder == "interlingua" else clone).as_posix()
        for folder in ("interlingua", *FOLDERS)
        for path in (clone / folder).rglob("*")
        if path.suffix in kinds or path.name == "NOTICE"
    }
    assert {"configs/pretrain/quickstart.yaml", "datamodules/quickstart/emoji_mini.webp"} <= expected
    found = {path.relative_to(packages / "interlingua").as_posix() for path in (packages / "interlingua").rglob("*")}
    assert expected - found == set()


def test_wheel_among_foreign_folders(installed, neighbours):
    python, packages = installed
    assert "usage: interlingua" in run(python.parent / "interlingua", "--help", cwd=neighbours)
    assert run(python, "-c", WHERE, cwd=neighbours).splitlines() == [
        str(packages / "interlingua" / name / "__init__.py") for name in ("models", "configs")
    ]


def test_installed_configuration_is_found(installed, neighbours):
    python, packages = installed
    code = "from interlingua.configuration import locate; print(locate('configs/pretrain/quickstart.yaml'))"
    assert run(python, "-c", code, cwd=neighbours).strip() == str(packages / "interlingua/configs/pretrain/quickstart.yaml")


def test_guard_leaves_an_installed_package_alone(installed, neighbours):
    python, packages = installed
    paths = run(python, "-c", "import interlingua; print(*interlingua.__path__)", cwd=neighbours).split()
    assert paths == [str(packages / "interlingua")]


def test_checkout_goes_before_the_wheel_at_its_root(installed, clone):
    python, _ = installed
    assert run(python, "-c", WHERE, cwd=clone).splitlines()[0] == str(clone / "models" / "__init__.py")


def test_bare_clone_is_importable(clone, tmp_path):
    python, _ = environment(tmp_path / "bare")
    assert run(python, "-c", WHERE, cwd=clone).splitlines()[0] == str(clone / "models" / "__init__.py")


def test_editable_install_exposes_nothing_else(tmp_path):
    assert run(sys.executable, "-c", WHERE, cwd=tmp_path).splitlines()[0] == str(ROOT / "models" / "__init__.py")
    code = "import importlib.util as u; print(*(n for n in ('models', 'tasks', 'modalities', 'configs') if u.find_spec(n)))"
    assert run(sys.executable, "-c", code, cwd=tmp_path).strip() == ""
