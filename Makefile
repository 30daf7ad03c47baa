# The two commands: `make demo` and `make test`. Both set everything up; the second time they start at once.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

NOTE := "Both networks have the same budget, and each the best of 60 random settings that were drawn alike for both (examples/demo/search.py). This is \
one seed of one small data set: how they learn tells more than the last digits of their accuracies; five seeds are in the README."

.PHONY: demo test lint clean

demo: $(VENV)/.installed-figures
	$(BIN)/highway train examples/demo/plain.toml --out runs/demo-plain --overwrite
	$(BIN)/highway train examples/demo/highway.toml --out runs/demo-highway --overwrite
	$(BIN)/highway explore runs/demo-plain runs/demo-highway
	$(BIN)/highway report runs/demo-plain runs/demo-highway --out runs/demo-report.html --note $(NOTE)

test: lint
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The compiled kernels are part of the installation.
NATIVE := CMakeLists.txt $(wildcard src/highwaynet/kernels/*.cpp src/highwaynet/kernels/*.h)

$(VENV)/.installed-%: pyproject.toml $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "highwaynet needs Python 3.11 or newer: name one with make PYTHON=python3.11"; exit 2; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
