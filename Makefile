# Everything happens in a virtual environment of its own, one for each version of Python:
#   make demo                  set up, decode a capture, show the result
#   make test                  set up, run all tests
#   make test PYTHON=python3.10
#   make fields                docs/fields.md, from the schema and docs/collectors.csv
# Without root. What is missing is said.

PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV := .venv/$(VERSION)
PY := $(VENV)/bin/python
BUILT := $(VENV)/.built
SOURCES := $(wildcard ext/*.pyx ext/*.pxd ext/binding/*.pxi ext/core/*) setup.py pyproject.toml

.PHONY: demo test bench check fields clean setup

setup: $(BUILT)

demo: $(BUILT)
	@$(PY) -m pip install -q --group demo
	@$(PY) examples/demo.py

test: $(BUILT)
	@$(PY) -m pip install -q --group test
	$(PY) -m pytest

bench: $(BUILT)
	$(PY) -m pip install -q --group test
	$(MAKE) -C ext bench PYTHON=$(abspath $(PY))
	$(PY) -m pytest benchmarks --benchmark-only

# Style, types, and the tests of the structure.
check: $(BUILT)
	$(PY) -m pip install -q --group test --group lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PY) -m pytest tests/test_structure.py

fields: $(BUILT)
	$(PY) docs/make_fields.py

clean:
	rm -rf .venv build ext/build ext/_core.c src/flowbuf.egg-info src/flowbuf/*.so .pytest_cache .hypothesis .mypy_cache .ruff_cache

$(VENV)/bin/python:
	@test -n "$(VERSION)" || { echo "$(PYTHON) is missing: install Python 3.10 or newer, or say make PYTHON=…"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "flowbuf needs Python 3.10 or newer; $(PYTHON) is $(VERSION)"; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "a C compiler is missing: install gcc or clang"; exit 1; }
	@$(PYTHON) -m venv $(VENV) && $(PY) -m pip install -q --upgrade pip || \
		{ rm -rf $(VENV); echo "no virtual environment: python3-venv or the network may be missing"; exit 1; }

$(BUILT): $(VENV)/bin/python $(SOURCES)
	@$(PY) -m pip install -q --editable . 2>$(VENV)/build.log || { cat $(VENV)/build.log; exit 1; }
	@touch $@
