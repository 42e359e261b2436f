# Everything runs from .venv, which `make` builds by itself with the first suitable Python.
# Needs: Python 3.11 or newer (with venv), git, make.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	if command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# One more than cores: tests wait now and then, but each process has to read all of them.
JOBS ?= $(shell echo $$(($(CORES) + 1)))
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
BENCH ?=

# Whatever is started hundreds of times must not be compiled each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo screenshots test check test-long test-real-agents lint types layers compiled bench mutation soak clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Hostler needs Python 3.11 or newer; none was found on PATH."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		echo "Python could not make a virtual environment (on Debian: install python3-venv)."; \
		rm -rf $(VENV); exit 1; }
	@echo "Installing into $(VENV) ..."
	@$(PIP) --constraint constraints.txt --editable '.[dev,postgres,otel]'
	@touch $@

demo: setup ## Watch Hostler at work, on this machine alone
	@$(BIN)/hostler demo

screenshots: setup ## Take the pictures of the dashboard anew, from a demo; needs chromium
	$(BIN)/python docs/pictures/take.py

test: compiled ## Everything that must pass: style, types, layers, tests
	@$(PYTEST)

check: compiled ## The fast part of `make test`
	@$(PYTEST) --quick -m "not slow and not postgres and not long and not soak and not real_agents"

test-long: compiled ## What CI runs beside `make test`: kills at every step, campaigns, crowds
	@$(PYTEST) -m "long and not soak"

test-real-agents: setup ## The real programs of agents from npm, against models of our own; skipped without npm
	$(BIN)/python -m pytest -m real_agents -rs -p no:xdist tests/real_agents

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

# Once after the set-up: otherwise every worker compiles the same files at the same time.
compiled: $(VENV)/.compiled

$(VENV)/.compiled: $(READY)
	@echo "Compiling the tests ..."
	@$(BIN)/python -m pytest --collect-only -q > $(VENV)/collected 2>&1 || { tail -n 50 $(VENV)/collected; exit 1; }
	@touch $@

bench: setup ## Measure; BENCH=name for one benchmark
	$(BIN)/python -m bench $(BENCH)

mutation: setup ## See whether the tests notice changes of the rules; a part of `make soak`
	$(BIN)/python tests/mutation

soak: setup mutation ## Long campaigns of the tests, for hours
	$(BIN)/python -m pytest -m soak --timeout 0 -p no:xdist
	HYPOTHESIS_PROFILE=soak $(PYTEST) --timeout 0 -m "not soak and not real_agents"

clean: ## Remove what `make` built
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis bench/results
