# Everything a person or a machine runs here. `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STAMP := .venv/.installed

# The first Python in this list that exists, is in range, and can make a virtual environment.
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3; do \
	"$$each" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& { echo "$$each"; break; }; done)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test check bench lock clean

help:  ## List the targets.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /\1\t/' | expand -t 8

setup: $(STAMP)  ## Make .venv with the locked dependencies and the project in it.

$(STAMP): requirements-dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "needs Python 3.11, 3.12 or 3.13 with the venv module" >&2; exit 2; }
	@$(BIN)/python -c pass 2>/dev/null || { rm -rf .venv; $(PYTHON) -m venv .venv; }
	$(BIN)/pip install --quiet --require-hashes --requirement requirements-dev.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup  ## A seeded month of a fleet: into the ledger, closed, invoiced, shown; KAFKA=1 sends it through Kafka.
	$(BIN)/gpu-billing demo $(if $(KAFKA),--kafka)

test: setup  ## Run the tests; ARGS="-k name" goes to pytest, ARGS=--cov measures the pure code.
	$(BIN)/pytest $(ARGS)

check: setup  ## Style, types, layers, and that the migrations make the declared tables.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest --quiet --no-header tests/test_migrations.py

bench: setup  ## Measure, and rewrite docs/performance.md.
	$(BIN)/python -m benchmarks

lock: $(STAMP)  ## Renew both lock files to the newest versions that fit pyproject.toml.
	@for each in "--output-file=requirements.lock" "--extra=dev --output-file=requirements-dev.lock"; do \
		UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
			--generate-hashes --no-emit-index-url --no-emit-find-links $$each pyproject.toml; done

clean:  ## Remove .venv, caches and build leftovers; the data folder stays.
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage build dist *.egg-info
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
