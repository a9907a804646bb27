# `make` sets everything up and runs the demonstration; `make help` lists the rest.
.DEFAULT_GOAL := demo
.PHONY: demo setup test test-full bench report lint help clean
.SUFFIXES:
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.set-up
# As pip does for what it copies. Where Python may not write bytecode, as in many containers, every command would
# compile its sources anew. Files that are up to date are left alone, and Python passes over those that are not.
BYTECODE := $(PY) -m compileall -q foldwire sim gen hw bench
export MPLBACKEND := Agg

demo: $(STAMP)  ## train a small network and run ResNet-50's all-reduces on RTL (the default)
	@.ci/system-packages want
	@$(PY) -m foldwire demo

setup: $(STAMP)  ## build .venv and install missing system packages, nothing else
	@.ci/system-packages need
	@$(BYTECODE)

test: $(STAMP)  ## every test that takes seconds, and the cocotb benches
	@.ci/system-packages need
	@$(PY) -m pytest -q -n auto --dist worksteal

test-full: $(STAMP)  ## all tests, with the long proofs and the ten million additions
	@.ci/system-packages need
	@$(PY) -m pytest -q -n auto --dist worksteal -m ""

bench: $(STAMP)  ## every benchmark, one after the other
	@.ci/system-packages all
	@$(PY) -m bench all

report: $(STAMP)  ## measure, write docs/results and the figures of the README
	@.ci/system-packages all
	@$(PY) -m experiments.report

lint: $(STAMP)  ## ruff, mypy, and the counts of structure
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -m bench house

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	  | awk -F '|' '{printf "  make %-10s %s\n", $$1, $$2}'

clean:  ## delete build/ and .venv/
	rm -rf build $(VENV)

# Made anew only when pyproject.toml or the version changes. One dot per package; what pip says is shown if it fails.
$(STAMP): pyproject.toml foldwire/version.py
	@command -v $(PYTHON) >/dev/null && \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Foldwire needs Python 3.11 or newer as '$(PYTHON)'." >&2; \
	  echo "Install one and run, for example:  make PYTHON=python3.11" >&2; exit 2; }
	@test -x $(PY) || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Could not create $(VENV). On Debian:  sudo apt-get install python3-venv" >&2; exit 2; }; }
	@printf 'installing Python packages into $(VENV) (a minute or two) '
	@PYTHONUNBUFFERED=1 $(PY) -m pip install --disable-pip-version-check -e '.[demo,dev]' 2>&1 \
	  | tee $(VENV)/pip.log \
	  | awk '/^Collecting/ {printf "."; fflush()} /^Installing/ {printf " unpacking"; fflush()} \
	    END {print ""}' || { tail -n 20 $(VENV)/pip.log >&2; exit 1; }
	@$(BYTECODE)
	@touch $@
