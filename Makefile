# `make demo` and `make test` work on a fresh machine with Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

.PHONY: demo test format clean

demo: $(VENV)/demo-installed ## stream unknown languages, train a model that learns to learn them, show it learning English
	$(BIN)/neophyte run demo --scale laptop --out runs

test: $(VENV)/test-installed ## style, types, floors and all tests
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

format: $(VENV)/test-installed
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "neophyte needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable '.[cli,train,plots]'
	touch $@

$(VENV)/test-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable '.[test]'
	touch $@ $(VENV)/demo-installed

clean:
	rm -rf $(VENV) runs build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
