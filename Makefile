# Everything is set up in .venv by itself; the machine needs Python 3.11 or newer, with pip.
# `make help` lists the targets.

PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3; do \
	if $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$each; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Tests start many processes: without compiled files each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-pythons check reference bench storm report clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' \
		| awk -F'|' '{ printf "make %-13s %s\n", $$1, $$2 }'

setup: $(READY) ## make .venv with all that the other targets need

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none was found on the PATH." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev]'
	@touch $@

demo: $(READY) ## check, draw and run the checkout example; deploy over a support agent
	@mkdir -p build
	$(BIN)/afl check --strict examples/checkout
	$(BIN)/afl fmt --check examples/checkout
	$(BIN)/afl compile examples/checkout --output build/checkout.json
	$(BIN)/afl graph examples/checkout --workflow Checkout --output build/checkout.svg
	$(BIN)/afl graph examples/checkout --workflow Checkout --format mermaid
	@rm -rf build/checkout.db*
	$(BIN)/afl run examples/checkout --workflow Checkout --inputs @examples/checkout/order.json \
		--store sqlite:///build/checkout.db
	@echo "Compiled program: build/checkout.json. Picture: build/checkout.svg (open it in a browser)."
	$(BIN)/python examples/support-agent/deploy.py

test: $(READY) ## all tests
	@$(BIN)/python tools/browser.py
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --quiet

test-pythons: $(READY) ## the unit tests on other Pythons that are here
	$(BIN)/python tools/other_pythons.py

check: $(READY) ## style, types, layers, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/reference.py --check

reference: $(READY) ## write all that is generated: pages of docs/reference, the compiled prelude
	$(BIN)/python tools/reference.py

$(PEERS): $(READY)
	$(PIP) --editable '.[dev,bench]'
	@touch $@

bench: $(PEERS) ## benchmarks, as JSON
	@$(BIN)/python -m benchmarks

storm: $(READY) ## the long versions of the tests
	AFL_TEST_PROFILE=storm $(BIN)/python -m pytest --numprocesses 2 --dist worksteal --timeout 3600 \
		tests/language tests/engine tests/contracts tests/work tests/workers \
		tests/loops tests/servers tests/turns tests/gateway tests/deploys tests/moving

report: $(READY) ## sizes of functions and files: a mirror, not a gate
	$(BIN)/python tools/report.py

clean: ## remove everything that was made here
	rm -rf $(VENV) .venv-* build .mypy_cache .ruff_cache .pytest_cache .hypothesis
