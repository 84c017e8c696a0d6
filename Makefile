# Everything is installed into .venv, torch through constraints.txt first: a bare "torch" may pull gigabytes of CUDA.
PYTHON ?= python3
MODEL ?= holographic-pcfg
VENV := .venv
BIN := $(VENV)/bin
# The tests start hundreds of commands: without stored bytecode, each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install quickstart test test-all test-lowest pytest pytest-all lint benchmark docs clean

help:
	@echo "make quickstart   install, parse with the bundled model, train on the built-in corpus (MODEL=holographic-pcfg)"
	@echo "make test         install, then run the tests"
	@echo "make test-all     the long tests, too: before a release"
	@echo "make test-lowest  the tests with the lowest versions of all dependencies"
	@echo "make lint         ruff, mypy, imports between packages, wording"
	@echo "make benchmark    speed of the operations, beside their references"
	@echo "make docs         the documentation as a site: site/index.html"

install: $(VENV)/installed
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[plot]"
	@touch $@

# What the tests need besides, all optional dependencies included; bytecode is compiled when it is first imported.
$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[test,docs]"
	@touch $@

quickstart: install
	$(BIN)/syntaxlm quickstart --model-type $(MODEL) --output runs/quickstart-$$(date +%Y%m%d-%H%M%S)

test: $(VENV)/installed-test
	$(MAKE) --no-print-directory --jobs 2 lint pytest

test-all: $(VENV)/installed-test
	$(MAKE) --no-print-directory --jobs 2 lint pytest-all

# The short tests with the lowest declared version of every dependency; torch as in constraints.txt.
LOWEST := .venv-lowest
test-lowest:
	$(PYTHON) -m venv --clear $(LOWEST)
	$(PYTHON) -m laboratory.pages.dependencies > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt \
	  --constraint $(LOWEST)/constraints.txt --editable ".[test]"
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n auto --dist worksteal

pytest: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

pytest-all: $(VENV)/installed-test
	SYNTAXLM_LONG_TESTS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "long or not long"

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	@# PLW1514: files are opened with an encoding, because each system has another default.
	$(BIN)/ruff check --preview --select PLW1514 src laboratory
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m laboratory.pages.language

benchmark: install test
	$(BIN)/python -m laboratory.benchmarks.gated_memory

docs: $(VENV)/installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) $(LOWEST) site .pytest_cache .mypy_cache .ruff_cache
