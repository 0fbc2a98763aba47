# What people ask for; `make help` lists it.  Experiments of minutes to hours: python tests/long.py
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
BUILD_NEEDS := "meson-python>=0.16" "meson>=1.3" ninja "Cython==3.3.*" "numpy>=2.0" "cffi>=1.16" "protobuf>=4.25"  # [build-system] of pyproject.toml

SOURCES := $(shell find pyflow _executor plugins include -type f -not -name '*.so' -not -name '*.pyi' -not -path '*/__pycache__/*' 2>/dev/null) \
           pyproject.toml meson.build meson.options

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)

demo: .venv/installed  ## build, install into .venv, train a digit classifier, restore it (ISA=baseline: a quarter of the build)
	@echo "training a digit classifier (examples/01_digits.py)"
	$(BIN)/python examples/01_digits.py

test: .venv/installed-tests  ## build and pass the tests, on this processor's best kernels
	$(MAKE) --no-print-directory -j2 clusters computing
	$(PYTEST) -m "alone $(SHORT)" $(ALONE)

test-all: .venv/installed-tests  ## these, longer ones, the kernels for older processors, OpenBLAS's for each, the emulated GPU
	$(MAKE) --no-print-directory -j2 clusters computing LONG=1
	$(PYTEST) -m alone $(filter-out tests/distributed/test_parts.py,$(ALONE))  # its hundred parts of seconds are dist-long's

dev: .venv/build-needs  ## an editable install into .venv for working on pyflow
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --no-build-isolation -e ".[test]"

tables: .venv/made  ## after a change of ops or public names: op_types.py, op_families.py, _public.py (and the types, *.pyi)
	@PYTHONPATH=$(CURDIR) $(BIN)/python -P -m pyflow.tools.tables pyflow

# Tools of one pinned version: another one lays some lines out otherwise.
CLANG_FORMAT := clang-format==23.1.5
RUFF := ruff==0.17.6
# Not examples/plugin_hello: README and the pages quote it as it is.
C_FILES = $(shell find include _executor plugins examples/[0-9]* examples/plugin_accelerator -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp')
format: .venv-format/made  ## lays out C and CUDA (.clang-format) and Python (pyproject.toml)
	.venv-format/bin/clang-format -i $(C_FILES)
	.venv-format/bin/ruff check -q --fix

format-check: .venv-format/made  ## says what `make format` would change
	.venv-format/bin/clang-format --dry-run --Werror $(C_FILES)
	.venv-format/bin/ruff check -q

.venv-format/made: Makefile
	$(PYTHON) -m venv .venv-format && .venv-format/bin/python -m pip -q install "$(CLANG_FORMAT)" "$(RUFF)"
	@touch $@

docs: .venv/installed  ## the documentation as a site in build/site: warnings are errors, links are followed; a minute
	$(BIN)/python tests/long.py --environments docs
	$(BIN)/python -P docs/site/make.py build/site-pages
	rm -rf build/site && .venv-docs/bin/python -m sphinx -q -W --keep-going build/site-pages build/site
	$(BIN)/python -P tests/ui/check_docs.py build/site

cuda: .venv/installed-tests  ## the CUDA plugin's library into build/cuda, where nvcc is (ARCHS=90 for one architecture)
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
	  [ -f build/cuda/build.ninja ] || $(BIN)/meson setup build/cuda plugins/cuda -Darchs=$(or $(ARCHS),75,80,90) && $(BIN)/ninja -C build/cuda; \
	else echo "make cuda: skipped, no nvcc on PATH or in /usr/local/cuda"; fi

bench: .venv/installed  ## beside TensorFlow, torch, onnxruntime, jax and NumPy, fetched: an hour (BENCH=--quick: a third)
	$(BIN)/python tests/long.py --environments tf torch ort
	$(BIN)/python benchmarks/run.py $(foreach peer,tf torch ort,--$(peer) .venv-$(peer)/bin/python) $(BENCH)

ab: .venv/installed-tests  ## this tree beside another wheel on 40 fixed rows (OLD=old.whl): did a change cost speed?  15 minutes
	@test -f "$(OLD)" || { echo "make ab OLD=WHEEL: the wheel to compare this tree with"; exit 2; }
	$(PYTHON) -m venv --clear .venv-ab && .venv-ab/bin/python -m pip -q install "$(OLD)[test]"
	$(BIN)/python -P benchmarks/ab.py --old .venv-ab/bin/python --new $(BIN)/python --json ab-results.json

# clang: objects of every instruction set; aarch64's are run; the others as much as finds what they alone say.
COMPILERS := gcc-11:syntax clang-14:syntax clang-22 aarch64-linux-gnu-gcc:O1 arm-linux-gnueabihf-gcc musl-gcc:syntax
EMULATOR := qemu-aarch64-static
compile-all: .venv/installed-tests  ## all of it with other compilers, for aarch64 (run under qemu), armhf, musl (COMPILERS="gcc-13")
	[ -f build/compile/build.ninja ] || MAKEFLAGS= PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m mesonbuild.mesonmain setup build/compile >/dev/null
	MAKEFLAGS= PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/portability/compile_all.py build/compile $(COMPILERS)
	@if command -v $(EMULATOR) >/dev/null; then $(BIN)/python -P tests/portability/run_emulated.py build/compile; \
	else echo "compile-all: nothing was run for aarch64: apt-get install qemu-user-static"; fi

test-matrix: .venv/installed-tests  ## the wheel with oldest and newest NumPy, protobuf, cffi, for each Python (MATRIX="--python 3.11")
	$(BIN)/python tests/portability/matrix.py dist/pyflow_dataflow-*.whl $(MATRIX)

clean:  ## removes what was built, and .venv
	rm -rf .venv dist build

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1\t\2/p' Makefile | expand -t 13

# ---------------------------------------------------------------- the parts of test
# Two parts that compute at once, the longest first, and beside them those of clusters, one by one: they
# wait more than they compute.  What measures time runs after them all.  LONG: of test-all.
# PYTHONSAFEPATH: the installed package is tested, never the tree's.
PYTEST = PYTHONSAFEPATH=1 $(BIN)/python -m pytest
SHORT = $(if $(LONG),,and not long)
ALONE = $(sort $(shell grep -rl --include='test_*.py' 'mark[.]alone' tests))
OWN_JOBS = MAKEFLAGS='$(filter-out -j% --jobserver%,$(MAKEFLAGS))'
OLDER := isa-avx2 isa-baseline blas

clusters: .venv/installed-tests
	$(OWN_JOBS) $(MAKE) --no-print-directory -O $(addprefix part-,$(CLUSTERS))

computing: .venv/installed-tests
	$(OWN_JOBS) nice $(MAKE) --no-print-directory -j2 -O part-others part-system part-ops $(if $(LONG),$(OLDER)) part-graphs $(if $(LONG),emulated-gpu)

TESTS_OF_system := $(wildcard $(addprefix tests/,abi accelerator fuzz fuzz_format fuzz_ops memory session users))
TESTS_OF_graphs := $(wildcard $(addprefix tests/,control_flow executor functions gradients graph passes passes_partition shapes state))
TESTS_OF_ops := tests/ops tests/oracle
TESTS_OF_others := tests $(addprefix --ignore=,$(TESTS_OF_system) $(TESTS_OF_graphs) $(TESTS_OF_ops) tests/cuda tests/distributed)
TESTS_OF_links := $(patsubst %,tests/distributed/test_%.py,conformance credit net security standby transports)
TESTS_OF_losses := $(patsubst %,tests/distributed/test_%.py,delivery failing hangs lost recovery)
TESTS_OF_distributed := $(filter-out $(TESTS_OF_links) $(TESTS_OF_losses),$(wildcard tests/distributed/test_*.py))
CLUSTERS := losses distributed links

# Of the long tests of clusters test-all has the kills alone; `python tests/long.py dist-long` has the others.
part-%: .venv/installed-tests
	$(PYTEST) -m "not alone $(if $(filter $*,$(CLUSTERS)),and not long,$(SHORT))" $(TESTS_OF_$*)
	$(if $(LONG),$(if $(filter losses,$*),$(PYTEST) -m long tests/distributed/test_recovery.py))

isa-%: .venv/installed-tests  # as older processors run them
	PYFLOW_CPU_ISA=$* $(PYTEST) tests/ops/test_values.py \
	  $(wildcard tests/ops/test_*_ways.py tests/ops/test_*_sizes.py tests/ops/test_large_*.py) \
	  $(patsubst %,tests/ops/test_%.py,convolution row_kernels vmath rnn_ops) \
	  tests/passes/test_fuse.py tests/passes/test_fuse_random.py tests/oracle/test_oracle.py

# As OpenBLAS computes on each kind of processor, with our kernels for it; part-ops has this one.
CORES := Prescott:baseline Nehalem:baseline Sandybridge:baseline Haswell:avx2 Zen:avx2 SkylakeX:avx512 Cooperlake:avx512
BLAS_TESTS := $(addprefix tests/ops/test_,triangular_solve.py linalg_sizes.py least_squares.py svd_gradients.py matmul_complex.py \
                matmul_ways.py gradients.py matrix_functions.py) tests/gradients/test_second.py \
              -k "(not test_product or 450-600-380 or 260-3100-110) and (not test_gradient or session and (MatMul or Matrix or Cholesky or Qr or Svd or Eig or Einsum or Lu- or Conv2D))"

blas: .venv/installed-tests
	for core in $(CORES); do echo "OpenBLAS's kernels, our own: $$core"; \
	  OPENBLAS_CORETYPE=$${core%:*} PYFLOW_CPU_ISA=$${core#*:} $(PYTEST) $(BLAS_TESTS) || exit 1; done

emulated-gpu: .venv/installed-tests  # apart: it would be the others' default device
	$(PYTEST) tests/cuda

# ---------------------------------------------------------------- what is in .venv
.venv/made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pyflow needs Python 3.11 or later: make PYTHON=python3.12")'
	@echo "making an environment of its own in .venv"
	@rm -rf build/wheel*  # of another Python
	@$(PYTHON) -m venv .venv
	@touch $@

# What the build needs lies in .venv and what it made in build/wheel: the next build compiles only what has changed.
.venv/build-needs: .venv/made pyproject.toml
	@echo "installing what the build needs into .venv (Cython, meson and ninja)"
	@$(PIP) install $(BUILD_NEEDS)
	@touch $@

.venv/installed: .venv/build-needs $(SOURCES)
	@rm -rf dist && PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python _executor/build_wheel.py --no-build-isolation \
	  -Cbuild-dir=build/wheel$(addprefix -,$(ISA)) $(if $(ISA),-Csetup-args=-Disa=$(ISA))
	@echo "installing it and what it needs into .venv"
	@$(PIP) install --force-reinstall --no-deps dist/pyflow_dataflow-*.whl && $(PIP) install dist/pyflow_dataflow-*.whl
	@touch $@

.venv/installed-tests: .venv/installed
	$(PIP) install "$$(ls dist/pyflow_dataflow-*.whl)[test]"
	@touch $@
