# Every target sets up what it needs: a virtual environment from plain python3 and pip.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TESTS  ?= tests

.PHONY: help demo test test-slow check bench docs format clean

help:            ## what can be made
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

demo: $(VENV)/.app                ## cluster bundled data end to end; prints where the report is
	$(BIN)/weald demo

test: $(VENV)/.test               ## the fast tests, with warnings as errors
	$(BIN)/python -m pytest -n auto $(TESTS)

test-slow: $(VENV)/.test          ## long statistical and real-data tests
	$(BIN)/python -m pytest -n auto -m slow $(TESTS)

check: $(VENV)/.lint              ## style, types, import time, links of the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/import_time.py
	$(BIN)/python docs/check_links.py

bench: $(VENV)/.bench             ## every speed claim beside its rival, in one run
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs               ## documentation with its gallery, in docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

format: $(VENV)/.lint             ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:           ## remove what was built, compiled kernels included
	rm -rf $(VENV) docs/_build docs/gallery docs/api/generated weald-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.%: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@
