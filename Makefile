# `make help` lists what there is. Everything runs in .venv, which is made on first use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CASE := text_gated_residual_grad B=1 S=4096 C=4 H=2560 R=320 --chip ascend950pr
SMALL := text_gated_residual_grad B=1 S=64 C=4 H=256 R=32 --chip ascend950pr

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench schema clean

help:  ## Say what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 10

setup: $(VENV)/.ready  ## Make .venv with the package and everything to test it

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tilesim needs Python 3.11 or newer; say make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,fit,safetensors]'
	touch $@

demo: setup  ## Check, plan, simulate and run one operator
	$(BIN)/tilesim check $(CASE)
	$(BIN)/tilesim plan $(CASE)
	$(BIN)/tilesim simulate $(CASE)
	$(BIN)/tilesim run $(SMALL) --random 0 --verify

test: setup  ## All tests
	$(BIN)/python -m pytest

check: setup  ## Lint, format, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

bench: setup  ## Timings
	$(BIN)/python -m tests.bench

schema: setup  ## Write chips/_schema.json again
	$(BIN)/python -c 'from tilesim.chip import schema_text; print(schema_text(), end="")' > chips/_schema.json

clean:  ## Remove what was made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
