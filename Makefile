# `make help` lists the targets. Everything runs in .venv, which is made on first use.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	"$$p" -c '$(NEW_ENOUGH)' 2>/dev/null && command -v "$$p" && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
CASE := text_gated_residual_grad B=1 S=4096 C=4 H=2560 R=320 --chip ascend950pr
SMALL := text_gated_residual_grad B=1 S=64 C=4 H=2560 R=320 --chip ascend950pr

.DEFAULT_GOAL := help
.PHONY: help setup demo test trials check bench schema readme samples picture clean python

help:  ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 10

setup: $(VENV)/.ready  ## Make .venv with the package and its development tools

# A system's Python may lack ensurepip, which virtualenv does not need.
$(VENV)/.ready: pyproject.toml
	@'$(PYTHON)' -c '$(NEW_ENOUGH)' || { echo 'tilesim needs Python 3.11 or newer: make PYTHON=...' >&2; exit 2; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { \
		$(PYTHON) -m pip install --quiet --target $(VENV)/virtualenv virtualenv && \
		PYTHONPATH=$(VENV)/virtualenv $(PYTHON) -m virtualenv --quiet $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,fit,safetensors]'
	touch $@

demo: setup  ## Check, plan, simulate and run one operator
	$(BIN)/tilesim check $(CASE)
	$(BIN)/tilesim plan $(CASE)
	$(BIN)/tilesim simulate $(CASE)
	$(BIN)/tilesim run $(SMALL) --random 0 --verify

test: setup  ## Run all tests
	$(BIN)/python -m pytest -n auto --dist loadfile

trials: setup  ## Run thousands of random cases, where tests run a few
	TILESIM_TRIALS=1 $(BIN)/python -m pytest -n auto --dist loadfile tests/ops

check: setup  ## Check lint, format, types and layers, and run all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto --dist loadfile

bench: setup  ## Measure speed, as ratios, and the errors of predicted times
	$(BIN)/python -m bench.speed
	$(BIN)/python -m bench.accuracy

schema: setup  ## Write chips/_schema.json again
	$(BIN)/python -c 'from tilesim.chip.loading import schema_text; print(schema_text(), end="")' > chips/_schema.json

readme: setup  ## Run the commands of README.md and docs/ and write their output again
	$(BIN)/python -m tests.readme

picture: setup  ## Draw docs/wings.svg again
	$(BIN)/python -m tests.wings

samples: setup  ## Write the reports in reports/ again, with the page
	$(BIN)/python -m tests.samples

clean:  ## Remove .venv, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

python:
	@echo '$(PYTHON)'
