# Build, test and measure flowbuf. Each Python version has its own virtual environment, .venv/VERSION. No
# target needs root.
#
#   make setup                 create the environment, build, and install everything that tests need
#   make demo                  decode a capture and show the result
#   make demo-live             replay captures into a collector with its live view for ten seconds
#   make demo-pipeline         the same through a Kafka broker into ClickHouse's engine (needs Java and Maven)
#   make test                  run the fast tests, on all processors
#   make test PYTHON=python3.10         run them with another Python
#   make test TESTS=tests/codec         run one folder, file or test
#   make test-all              run all tests, then make sanitize and make sanitize-threads
#   make check                 run the linters and the structure tests, and count instructions per flow
#   make sanitize              run tests that feed hostile bytes to C under ASan and UBSan (gcc)
#   make sanitize-threads      run tests with several threads under ThreadSanitizer (gcc)
#   make fuzz-binding          fuzz the binding under the sanitizers; FUZZ_SECONDS=600 for each family
#   make bench                 measure the core alone, then run all benchmark suites
#   make bench-peers           build the harnesses of other collectors (needs Go and Cargo)
#   make bench-collectors      build the collectors that benchmarks/collector.py compares (needs Go)
#   make wheel                 build wheels for all installed Python versions into build/wheels (Linux)
#   make docs                  build the documentation site into build/site
#   make fields                write the generated texts of docs/ from the code and docs/reference/collectors.csv
#   make kafka                 start a real Kafka broker on this machine; make kafka-stop ends it
#   make registry              start a schema registry on this machine; make registry-stop ends it
#   make s3-server             build the S3 server that tests of object stores use (needs Go)
#   make clean                 stop the broker, and remove environments and builds
#
# A target whose tools are missing names them.

PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV := .venv/$(VERSION)
PY := $(VENV)/bin/python
BUILT := $(VENV)/.built
TOOLS := $(VENV)/.tools
PEERS := benchmarks/peers
SOURCES := $(wildcard src/flowbuf/_core/*.p[yx][xd] src/flowbuf/_core/*/*.p[yx][xd] src/flowbuf/_core/objects/* ext/core/*/* ext/generate/* ext/net/* schemas/*.toml) setup.py pyproject.toml

.PHONY: demo demo-live demo-pipeline test test-all sanitize sanitize-threads fuzz-binding bench bench-peers bench-collectors check wheel docs fields kafka kafka-stop registry registry-stop s3-server clean setup core-tests

setup: $(BUILT) $(TOOLS) core-tests $(VENV)/.compiled

# Store the bytecode of the tests. Otherwise every process of the first run compiles all of them.
$(VENV)/.compiled: $(TOOLS)
	@$(PY) -m pytest --collect-only -q >/dev/null || true
	@touch $@

# The C tests as programs, which `make test` runs.
core-tests: $(BUILT)
	@$(MAKE) --no-print-directory -s -C ext -j$$($(PY) -c 'import os; print(os.cpu_count())') VARIANT=test \
		PYTHON=$(abspath $(PY)) programs

demo: $(BUILT)
	@$(PY) -m pip install -q --group demo
	@$(PY) examples/demo.py

demo-live: $(BUILT)
	@$(PY) -m pip install -q 'flowbuf[arrow]'  # flowbuf itself is installed already
	@$(PY) examples/demo_live.py

demo-pipeline: $(BUILT)
	@for tool in java mvn; do command -v $$tool >/dev/null || \
		{ echo "$$tool is missing: apt-get install default-jre-headless maven"; exit 1; }; done
	@$(PY) -m pip install -q --only-binary chdb-core 'flowbuf[kafka,chdb]'  # flowbuf itself is installed already
	@$(PY) examples/pipeline.py

# tests/conftest.py chooses the number of processes. Tests of one module share fixtures, so they stay together.
PYTEST = $(PY) -m pytest --numprocesses auto --dist loadscope
test: setup
	HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),fast) $(PYTEST) -m "not slow and not expensive" $(TESTS)

# Many expensive tests compile on all processors, or wait for a broker, so only two modules run at once, in the
# order of tests/conftest.py. The benchmark of the collector runs alone: a broker that waits for a processor would
# lose its flows.
ALONE := tests/benchmarks/test_collecting.py
test-all: setup
	$(PYTEST) -m "not expensive"
	$(PY) -m pytest --numprocesses 2 --dist loadscope --no-loadscope-reorder -m expensive --ignore $(ALONE)
	$(PY) -m pytest -m expensive $(ALONE)
	$(MAKE) sanitize sanitize-threads PYTHON=$(PYTHON)

# What tests use of other projects. Spark needs Java, and ClickHouse's engine has no wheels for some systems.
$(TOOLS): $(VENV)/bin/python pyproject.toml
	@echo "installing what the tests use: one to three minutes"
	@$(PY) -m pip install -q --group test $$(command -v java >/dev/null && echo --group spark)
	@$(PY) -m pip install -q --only-binary chdb-core --group chdb || echo "no chdb for this system: its tests are skipped"
	@touch $@

# Tests that feed hostile bytes to C. Leak detection is off: Python keeps too much memory until it exits.
SANITIZED := tests/arrow tests/binding tests/codec tests/decode tests/io tests/cli/test_cli_messages_columns.py \
	$(patsubst %,tests/exporter/test_%.py,eviction losses restore state) \
	$(patsubst %,tests/collect/test_%.py,collector listen replay service)
ASAN = LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so) $$(gcc -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1 PYTHONMALLOC=malloc PYTHONPATH=build/sanitized
sanitize: build/sanitized
	$(ASAN) HYPOTHESIS_PROFILE=fast $(PYTEST) -m "not expensive" $(SANITIZED)

# Fuzz the binding with mutated input: each family for FUZZ_SECONDS of CPU time. For example,
# FUZZ_FLAGS="--seed 1 --family state"
fuzz-binding: build/sanitized
	$(ASAN) $(PY) -m tests.binding.fuzz_binding --seconds $(or $(FUZZ_SECONDS),10) $(FUZZ_FLAGS)

# CPython is built without ThreadSanitizer. The sanitizer sees its locks, and the memory accesses of the
# extension.
TSAN = LD_PRELOAD="$$(gcc -print-file-name=libtsan.so)" TSAN_OPTIONS=exitcode=66:halt_on_error=1 PYTHONMALLOC=malloc \
	PYTHONPATH=build/sanitized-threads
sanitize-threads: build/sanitized-threads
	@$(TSAN) $(PY) -m tests.support.race_on_purpose 2>/dev/null; \
		[ $$? = 66 ] || { echo "ThreadSanitizer does not report tests/support/race_on_purpose.py"; exit 1; }
	$(TSAN) $(PY) -m pytest tests/binding/test_races.py tests/binding/test_threads.py \
		tests/collect/test_collector.py

# Remove build/lib.*: setuptools would reuse objects that were built with other flags.
build/sanitized build/sanitized-threads: $(BUILT) $(TOOLS)
	rm -rf build/lib.*
	FLOWBUF_SANITIZE=$(if $(findstring threads,$@),thread,1) $(PY) -m pip install -q --no-deps --upgrade --target $@ .
	rm -rf build/lib.*
	@touch $@

bench: setup
	$(MAKE) -C ext bench PYTHON=$(abspath $(PY))
	@mkdir -p build
	$(PY) -m pytest benchmarks --benchmark-only --benchmark-columns=median,iqr,rounds --benchmark-json=build/benchmarks.json
	$(PY) -m benchmarks.compare build/benchmarks.json

# Build the peers whose compiler is installed, and report the others.
bench-peers:
	@mkdir -p $(PEERS)/build
	@if command -v go >/dev/null; then \
		echo "goflow2, dynamic-append" && cd $(PEERS)/go && go build -o ../build/ ./goflow2 ./dynamic-append; \
	else echo "no goflow2 and no dynamic-append: go is missing (https://go.dev/dl, 1.23 or newer)"; fi
	@if command -v cargo >/dev/null; then \
		echo "netflow_parser" && cd $(PEERS)/rust && cargo build --quiet --locked --release --target-dir ../build/cargo && \
		cp ../build/cargo/release/netflow_parser ../build/; \
	else echo "no netflow_parser: cargo is missing (https://rustup.rs, 1.88 or newer)"; fi

wheel: $(VENV)/bin/python
	@$(PY) -m pip install -q --group wheel
	@PATH="$(abspath $(VENV)/bin):$$PATH" $(PY) tools/build_wheels.py

# GoFlow2 as its project builds it, in the version of the harness.
bench-collectors:
	GOBIN=$(abspath $(PEERS))/build/collectors go install \
		github.com/netsampler/goflow2/v2/cmd/goflow2@$$(sed -n 's,^.*netsampler/goflow2/v2 ,,p' $(PEERS)/go/go.mod)

# Style, types, spelling, the tests of structure and prose, and instructions per flow
# (benchmarks/instructions.py).
check: setup
	@git rev-parse --git-dir >/dev/null 2>&1 || { echo "make check needs git and a clone: git lists the files"; exit 1; }
	$(PY) -m pip install -q --group lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	git ls-files | xargs $(VENV)/bin/codespell
	git ls-files ext src | grep '[.][ch]$$' | xargs $(VENV)/bin/clang-format --dry-run -Werror
	cd ext && ls core/*/*.c generate/*.c net/*.c | xargs -n 4 -P 0 sh -c '$(abspath $(VENV))/bin/clang-tidy --quiet "$$@" -- -I. -std=c11 -DNDEBUG' sh
	$(PY) -m pytest tests/project/test_structure.py tests/project/test_prose.py
	$(PY) -m benchmarks.instructions

# Strict: a warning, such as a link that leads nowhere, ends the build.
docs: $(BUILT)
	@$(PY) -m pip install -q --group docs
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict
	@echo "build/site/index.html is the site; its search needs a server: $(PY) -m http.server -d build/site"

fields: $(BUILT)
	@$(PY) -m pip install -q --group docs
	$(PY) tools/make_fields.py
	$(PY) tools/make_docs.py

kafka:
	@$(PYTHON) tools/kafka start
	@echo "make kafka-stop stops it; tools/kafka --help lists the other commands" >&2

kafka-stop:
	@$(PYTHON) tools/kafka stop

registry:
	@$(PYTHON) tools/registry start
	@echo "make registry-stop stops it, and its schemas are lost" >&2

registry-stop:
	@$(PYTHON) tools/registry stop

# The version is the one that the tests were written with.
s3-server:
	GOBIN=$(abspath build/bin) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

clean:
	@if [ -d build/kafka ]; then $(PYTHON) tools/kafka stop && $(PYTHON) tools/registry stop; fi
	rm -rf .venv build $(PEERS)/build ext/build schemas/*.json src/flowbuf.egg-info src/flowbuf/_core/*.so src/flowbuf/_core/*/*.so .pytest_cache .hypothesis .mypy_cache .ruff_cache

$(VENV)/bin/python:
	@test -n "$(VERSION)" || { echo "$(PYTHON) is missing: install Python 3.10 or newer, or say make PYTHON=…"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "flowbuf needs Python 3.10 or newer; $(PYTHON) is $(VERSION)"; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "a C compiler is missing: install gcc or clang"; exit 1; }
	@test -f "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" || \
		{ echo "Python.h is missing: install the headers of $(PYTHON), such as the package python3-dev"; exit 1; }
	@$(PYTHON) -m venv $(VENV) && $(PY) -m pip install -q --upgrade pip || \
		{ rm -rf $(VENV); echo "no virtual environment: python3-venv or the network may be missing"; exit 1; }

# Installation also builds the extension. Later builds compile only changed files.
$(VENV)/.installed: $(VENV)/bin/python setup.py pyproject.toml
	@echo "compiling flowbuf for Python $(VERSION): one to three minutes"
	@$(PY) -m pip install -q "cython>=3.1" "setuptools>=77" "tomli>=2; python_version < '3.11'"
	@$(PY) -m pip install -q --no-build-isolation --editable . 2>$(VENV)/build.log || { cat $(VENV)/build.log; exit 1; }
	@touch $@

$(BUILT): $(VENV)/.installed $(SOURCES)
	@$(PY) setup.py -q build_ext --inplace 2>$(VENV)/build.log || { cat $(VENV)/build.log; exit 1; }
	@touch $@
