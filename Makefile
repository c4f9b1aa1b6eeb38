# Needs nothing but Python 3.11 or later with pip; each target makes the environment it needs.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo test check bench docs setup farends lock clean clean-farends

PYTHON ?= python3
BIN := .venv/bin
# How many processes share the tests: as many as there are cores, or tests of whole systems meet an overloaded machine.
# `make test JOBS=0` runs them in one.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')
# Passed on: `make test ARGS="-k claim"`, `make demo ARGS="--help"`.
ARGS ?=

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## run the whole system on this machine: mails accepted, delivered and shown
	@.ci/setup run
	@$(BIN)/messaging demo $(ARGS)

test: ## run every test against real servers started for the occasion
	@.ci/setup dev
	@$(MAKE) --no-print-directory farends
	@# Tests start hundreds of processes: without bytecode on disk each of them compiles the product anew.
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

check: ## formatting, lint, types, who may import whom
	@.ci/setup dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: ## measure, print a table, write benchmarks/results.jsonl; ONLY=name runs one
	@.ci/setup dev
	@$(MAKE) --no-print-directory farends
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

docs: ## write docs/reference from the code, build the documentation into build/site
	@.ci/setup dev
	@$(BIN)/python docs/_generate.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

setup: ## make .venv with everything for development
	@.ci/setup dev

farends: ## unpack Debian's programs that tests and benchmarks talk to into .farends/; installs nothing
	@tests/far_end/fetch_packages.sh .farends

lock: ## resolve the dependencies anew into both lock files
	@.ci/lock

clean: ## remove the environment and what tools left behind
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist .messaging
	find . -name __pycache__ -not -path './.farends/*' -prune -exec rm -rf {} +

clean-farends: ## remove the unpacked programs
	rm -rf .farends
