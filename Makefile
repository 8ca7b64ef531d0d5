# Every recipe sets up what it needs in .venv; nothing but python3 (3.11+) and make must be there.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help serve test kernels gpu-check lint types format exhaustive fuzz soak walls chaos test-edge test-oracles test-interop bench bench-peers bench-report clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.service: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade 'pip>=25.1'
	$(BIN)/pip install -q -e '.[service]'
	@touch $@

$(VENV)/.test: $(VENV)/.service
	$(BIN)/pip install -q --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.service
	$(BIN)/pip install -q --group lint
	@touch $@

serve: $(VENV)/.service ## Serve on HOST:PORT (127.0.0.1:8000)
	@exec $(BIN)/tensor-round-service --host $(HOST) --port $(PORT)

# Much of the suite waits, for services to start and for limits to pass: three share two cores.
THREE := --numprocesses 3 --dist loadfile
test: $(VENV)/.test ## Run the whole test suite; with ARGS, what they select
	$(BIN)/pytest $(or $(ARGS),$(THREE))
	@$(if $(ARGS),,$(MAKE) --no-print-directory kernels)

KERNELS := .venvs/kernels
$(KERNELS)/.kernels: pyproject.toml
	$(PYTHON) -m venv $(KERNELS)
	$(KERNELS)/bin/pip install -q --upgrade 'pip>=25.1'
	$(KERNELS)/bin/pip install -q -e '.[cuda13]'
	@touch $@

# NVRTC and CuPy are made for Linux and Windows alone.
kernels: ## Compile the GPU kernels for every architecture, without a GPU (150 MB, own venv)
ifeq ($(shell uname -s),Darwin)
	@echo "kernels: not compiled, there is no NVRTC for macOS"
else
	@$(MAKE) --no-print-directory $(KERNELS)/.kernels
	$(KERNELS)/bin/python tools/kernels/compile.py
endif

GPU := .venvs/gpu
$(GPU)/.%: pyproject.toml
	$(PYTHON) -m venv $(GPU)
	$(GPU)/bin/pip install -q --upgrade 'pip>=25.1'
	$(GPU)/bin/pip install -q -e '.[service,$*]'
	@touch $@

gpu-check: ## Prove and measure the GPU backend on the GPU here (5 minutes; "no device" without one)
	@extra=$$($(PYTHON) tools/gpu_check/driver.py); \
	if [ -z "$$extra" ]; then echo "no device"; exit 0; fi; \
	$(MAKE) --no-print-directory $(GPU)/.$$extra && \
	PYTHONPATH=tests $(GPU)/bin/python -m tools.gpu_check.check

exhaustive: $(VENV)/.test build/reference.so ## Try all float32 patterns against a C reference (minutes; needs a C compiler)
	PYTHONPATH=tests $(BIN)/python tools/exhaustive/prove.py build/reference.so
	PYTHONPATH=tests $(BIN)/python -m tools.kernels.prove build/reference.so

build/reference.so: tools/exhaustive/reference.c
	@mkdir -p build
	$(CC) -O3 -march=native -Wall -Wextra -Werror -shared -fPIC -o $@ $<

FUZZ := .venvs/fuzz
$(FUZZ)/.fuzz: $(VENV)/.test
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/pip install -q 'schemathesis>=4.32,<5'
	-$(BIN)/pip install -q 'atheris>=3' # there are no wheels of it for every platform
	@touch $@

SEED ?= 1
fuzz: $(FUZZ)/.fuzz ## Feed spoilt input to every reader, and spoilt HTTP to a service (10 minutes; SEED=)
	PYTHONPATH=tests:tools $(BIN)/python -m fuzz.parsers --seed $(SEED)
	PYTHONPATH=$(abspath tests):$(abspath tools) $(abspath $(BIN))/python -m fuzz.guided --seed $(SEED)
	PYTHONPATH=tests:tools $(BIN)/python -m fuzz.raw_http --seed $(SEED)
	PYTHONPATH=tests:tools $(BIN)/python -m fuzz.mixes --seed $(SEED)
	PYTHONPATH=tests:tools $(BIN)/python -m fuzz.openapi $(FUZZ)/bin/schemathesis --seed $(SEED)

chaos: MINUTES ?= 3
chaos: $(VENV)/.test ## Cut, garble and delay between clients and a service (MINUTES=3, SEED=)
	PYTHONPATH=tests:tools $(BIN)/python -m chaos --minutes $(MINUTES) --seed $(SEED)

soak: $(VENV)/.test ## Mix good, bad and rude traffic for 20 minutes (MINUTES=, SEED=, WORKERS=)
	PYTHONPATH=tests:tools $(BIN)/python -m soak --seed $(SEED) \
	$(if $(MINUTES),--minutes $(MINUTES)) $(if $(WORKERS),--workers $(WORKERS))

walls: $(VENV)/.test build/storm ## Run the rows of docs/reliability.md: ROWS="load slow", MINUTES= (half an hour)
	PYTHONPATH=tests:tools $(BIN)/python -m walls $(ROWS) $(if $(MINUTES),--minutes $(MINUTES))

build/storm: tools/walls/storm.c
	@mkdir -p build
	$(CC) -O2 -Wall -Wextra -Werror -o $@ $<

NGINX := PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v nginx >/dev/null
test-edge: $(VENV)/.test ## Run the end-to-end tests behind nginx and on a Unix socket (7 minutes; nginx, or root on Debian)
	@$(NGINX) || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends nginx-light; } || true
	@$(NGINX) || { echo "test-edge: nginx is not installed; on Debian: apt-get install nginx-light" >&2; exit 1; }
	$(BIN)/pytest tests/e2e --front all $(ARGS)

ORACLES := .venvs/oracles
$(ORACLES)/.oracles: pyproject.toml tests/interop/oracles/requirements.txt
	$(PYTHON) -m venv $(ORACLES)
	$(ORACLES)/bin/pip install -q --upgrade 'pip>=25.1'
	$(ORACLES)/bin/pip install -q -e '.[service]' --group test -r tests/interop/oracles/requirements.txt
	@touch $@

test-oracles: $(ORACLES)/.oracles ## Compare with ONNX Runtime, OpenVINO, LiteRT, PyTorch, JAX (2 GB, own venv)
	$(ORACLES)/bin/pytest tests/interop/oracles $(ARGS)

bench: $(VENV)/.service build/bench-load ## Measure the service beside the floor and its peers (10 minutes; ARGS=--quick)
	$(BIN)/python -m bench $(ARGS)

build/bench-load: bench/load.c
	@mkdir -p build
	-$(CC) -O2 -Wall -Wextra -Werror -o $@ $<

TRITON := .venvs/triton
$(TRITON)/.triton: bench/servers/triton/requirements.txt
	$(PYTHON) -m venv $(TRITON)
	$(TRITON)/bin/pip install -q -r $<
	version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	from=$(TRITON)/lib/python$$version/site-packages/pytriton/tritonserver; \
	mkdir -p $(TRITON)/backends && cp -r $$from/backends/python $(TRITON)/backends/ && \
	cp $$from/python_backend_stubs/$$version/triton_python_backend_stub $(TRITON)/backends/python/
	@touch $@

PEERS := .venvs/peers
$(PEERS)/.peers: pyproject.toml tests/interop/peers/requirements.txt $(TRITON)/.triton
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install -q --upgrade 'pip>=25.1'
	$(PEERS)/bin/pip install -q -e '.[service]' --group test -r tests/interop/peers/requirements.txt
	@# The last client that brings perf_analyzer; two libraries that it needs come with Triton.
	$(PEERS)/bin/pip install -q --no-deps --upgrade --target $(PEERS)/perf_analyzer tritonclient==2.47.0
	mkdir -p $(PEERS)/perf_analyzer/lib && cd $(PEERS)/perf_analyzer/lib && \
	ln -sf $(abspath $(TRITON))/lib/python3*/site-packages/nvidia_pytriton.libs/libb64-*.so.0d libb64.so.0d && \
	ln -sf $(abspath $(TRITON))/lib/python3*/site-packages/nvidia_pytriton.libs/libcudart-*.so.12* libcudart.so.12
	@touch $@

test-interop: $(PEERS)/.peers ## Meet Triton, perf_analyzer, KServe's client, ONNX's suite (1.5 GB, own venvs)
	TRITON_HOME=$(TRITON) PERF_ANALYZER=$(PEERS)/perf_analyzer/bin/perf_analyzer \
	$(PEERS)/bin/pytest tests/interop/peers $(ARGS)

bench-peers: $(TRITON)/.triton $(ORACLES)/.oracles ## Set up what the bench compares with: Triton, torch, ONNX Runtime (2 GB)

bench-report: $(VENV)/.service ## Put the latest results in docs/performance.md and docs/bench.svg
	$(BIN)/python -m bench.report

lint: $(VENV)/.lint ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.lint ## Check types, strictly
	$(BIN)/mypy
	$(BIN)/mypy tests/typed

format: $(VENV)/.lint ## Put the code in the project's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove what the recipes made
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
