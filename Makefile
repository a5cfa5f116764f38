# What one does with a checkout. Needs Python 3.11 or newer and make; everything else goes into .venv.
#
#   make test WORKERS=8           more test processes
#   make test PYTEST='-k undo'    more arguments for pytest
#   make demo PYTHON=python3.13   another interpreter (after make clean)

VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check -qq
WORKERS ?= 2
PYTEST  ?=
SOAK_SECONDS ?= 180

# Tests of one file stay in one process: a file's crash points and sweeps share what they build.
RUN_PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# The first interpreter that is new enough: python3 is an old one on some systems.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)

# Under make -j too, one thing after another: two pips would write into one environment, a benchmark
# must not share the machine with the tests, and what is printed stays in order.
.NOTPARALLEL:
.PHONY: help demo test check lint bench bench-full soak clean
.DEFAULT_GOAL := help

help: ## show this list
	@echo 'make …'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-13s %s\n", $$1, $$2 }'

demo: $(VENV)/core ## see an agent's work taken back (installs the core alone)
	@$(BIN)/takeback demo

test: lint $(VENV)/test ## everything that a change must pass: check, then all tests
	@echo 'pytest'
	@$(RUN_PYTEST) $(PYTEST) tests

check: lint $(VENV)/test ## style, types, layers and the shape of the code, in seconds
	@echo 'pytest tests/architecture'
	@$(BIN)/python -m pytest tests/architecture

lint: $(VENV)/test
	@echo 'ruff check'
	@$(BIN)/ruff check --quiet .
	@echo 'ruff format --check'
	@$(BIN)/ruff format --quiet --check . || { echo 'to format: $(BIN)/ruff format .'; exit 1; }
	@echo 'mypy --strict'
	@$(BIN)/mypy --no-error-summary
	@echo 'lint-imports'
	@$(BIN)/lint-imports > $(VENV)/imports.log 2>&1 || { cat $(VENV)/imports.log; exit 1; }

bench: $(VENV)/bench ## measure what the README claims, on this machine
	@$(BIN)/python -m benchmarks

bench-full: $(VENV)/bench ## the same with every size and backend; takes long
	@$(BIN)/python -m benchmarks --full

soak: $(VENV)/test ## the long sweeps and many more generated examples; takes long
	@TAKEBACK_SOAK=1 $(RUN_PYTEST) -m 'soak or hypothesis' $(PYTEST) tests
	@echo 'writers and servers are killed for $(SOAK_SECONDS) seconds each'
	@$(BIN)/python -m tests.crash.soaking --seconds $(SOAK_SECONDS)

clean: ## remove the environment and everything else that was made
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .cache
	@find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment, by need. Each stamp is written last, so that what was interrupted is done again.

$(VENV)/core: pyproject.toml
	@test -n '$(PYTHON)' || { echo 'takeback needs Python 3.11 or newer; name one: make PYTHON=…' >&2; exit 1; }
	@echo 'installing takeback into $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --editable .
	@touch $@

$(VENV)/test: $(VENV)/core
	@echo 'installing what the tests need'
	@$(call install,test)
	@touch $@

$(VENV)/bench: $(VENV)/core
	@echo 'installing what the benchmarks need'
	@$(call install,bench)
	@touch $@

# The extras and one dependency group. pip knows groups from 25.1 on; a new environment may hold an
# older one, and where that cannot be replaced the group is read out of pyproject.toml instead.
define install
if $(PIP) install 'pip>=25.1' 2>/dev/null; \
then $(PIP) install --editable '.[all]' --group $(1); \
else echo 'pip 25.1 was not to be had; reading group $(1) from pyproject.toml'; \
     $(BIN)/python -c "$$LIST_GROUP" $(1) > $(VENV)/$(1).txt \
     && $(PIP) install --editable '.[all]' --requirement $(VENV)/$(1).txt; \
fi
endef

define LIST_GROUP
import sys, tomllib
groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]
def show(name):
    for item in groups[name]:
        print(item) if isinstance(item, str) else show(item["include-group"])
show(sys.argv[1])
endef
export LIST_GROUP
