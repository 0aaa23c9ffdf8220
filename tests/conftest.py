"""Every test runs with shapes and types checked: jaxtyping's hook wraps each annotated function of the package."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook("interlingua", "beartype.beartype")

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that interrupt may run where Ctrl-C is left out of account


@pytest.fixture(scope="session")
def data() -> Path:
    """The development data (INTERLINGUA_DATA); tests that need it are skipped without, and fail in CI."""
    folder = os.environ.get("INTERLINGUA_DATA")
    if folder is None:
        refuse = pytest.fail if os.environ.get("INTERLINGUA_DATA_REQUIRED") else pytest.skip
        refuse("INTERLINGUA_DATA is not set: no development data")
    return Path(folder)
