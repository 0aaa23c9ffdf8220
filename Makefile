# `make quickstart` and `make test` set up what they need; PYTHON chooses the interpreter of a new .venv.
PYTHON ?= python3
PYTEST_FLAGS ?= -n 2
BIN = .venv/bin
FOLDERS = modalities models tasks datamodules configs
INPUTS = pyproject.toml setup.py constraints.txt

.PHONY: quickstart test lint typecheck pytest clean

quickstart: .venv/installed
	$(BIN)/python -m interlingua quickstart

test: lint typecheck pytest

lint: .venv/installed-dev
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

# Type checkers do not follow the mapping of setup.py: they are shown the package as links.
typecheck: .venv/installed-dev
	rm -rf build/typing
	mkdir -p build/typing/interlingua
	for path in interlingua/*.py interlingua/py.typed $(FOLDERS); do ln -s "../../../$$path" build/typing/interlingua/ || exit 1; done
	cd build/typing && "$(CURDIR)/$(BIN)/python" -m mypy --config-file ../../pyproject.toml

pytest: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)

.venv/installed: $(INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 10) else "interlingua needs Python 3.10 or newer; this is " + sys.version.split()[0] + ": make PYTHON=python3.12 ...")'
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/installed-dev: $(INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 10) else "interlingua needs Python 3.10 or newer; this is " + sys.version.split()[0] + ": make PYTHON=python3.12 ...")'
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch .venv/installed $@

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find $(FOLDERS) interlingua tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
