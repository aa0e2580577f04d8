# The two commands of the README are `make run` and `make test`; each sets up what it needs.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
ARGS ?=
AREA ?=

NPM ?= npm
# Tests wait for processes, browsers and sockets more than they compute, so two run for each core.
WORKERS := $(shell n=$$(( 2 * $$(getconf _NPROCESSORS_ONLN) )); echo $$(( n > 8 ? 8 : n )))
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n $(WORKERS) --dist worksteal
# A disk that waits for each fsync takes half of the time. `make test-full` uses it all the same.
IN_MEMORY = $(shell [ "$$(df -Pm /dev/shm 2>/dev/null | awk 'END {print $$4}')" -gt 6000 ] 2>/dev/null && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)
# Each start of Python would compile the modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run smoke shell data-stream-client test test-full mutants check format bench lock docs site clean

run: $(VENV)/run.ready
	@$(BIN)/demiurge chat $(ARGS)

test: $(VENV)/dev.ready
	@echo "The suite takes about 30 minutes on two cores, 15 on four; the slowest tests are listed at its end."
	$(IN_MEMORY) $(PYTEST) $(PARALLEL) --durations 25 -m "not full and not local_model"
	DEMIURGE_TEST_LOCAL_MODEL=1 $(PYTEST) --durations 5 -m "local_model and not full" --timeout 900 --timeout-method thread

test-full: $(VENV)/dev.ready
	$(PYTEST) $(PARALLEL) --durations 25 -m "not local_model" --timeout 3600
	DEMIURGE_TEST_LOCAL_MODEL=1 $(PYTEST) --durations 5 -m local_model --timeout 3600 --timeout-method thread

# Builds the web shell into the Python package. The built files are committed, so that only who changes them needs node.
shell: $(VENV)/dev.ready
	cd shell && $(NPM) ci --no-audit --no-fund && $(NPM) run build
	$(BIN)/python -m tests.shell.source_digest

# Builds the client of npm with which tests read /api/ai/chat. The built file is committed too.
data-stream-client:
	cd tests/shell/data_stream_client && $(NPM) ci --no-audit --no-fund && $(NPM) run build

# Changes the code one place at a time and looks whether a test notices: make mutants AREA=policy, or all areas.
mutants: $(VENV)/dev.ready $(VENV)/mutants.ready
	nice -n 15 $(BIN)/python -m tests.mutants $(AREA) $(ARGS)

# One message to a real provider, with the key in the environment; costs a fraction of a cent (docs/models.md).
smoke: $(VENV)/run.ready
	PATH="$(BIN):$$PATH" sh docs/examples/smoke.sh

check: $(VENV)/dev.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q tests/conventions
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(VENV)/dev.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev.ready
	$(BIN)/python -m bench

docs: $(VENV)/dev.ready
	$(BIN)/python docs/generate.py

# Builds the documentation as a site into build/site.
site: docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Writes the pinned requirements again, from pyproject.toml through uv.lock.
lock:
	uv lock
	uv export -q --frozen --no-emit-project --no-default-groups --group build --extra connections --extra local --extra mcp --extra prices --extra server -o requirements/run.txt
	uv export -q --frozen --no-emit-project --extra connections --extra local --extra mcp --extra prices --extra server -o requirements/dev.txt
	uv export -q --frozen --no-emit-project --group mutants --extra local --extra prices -o requirements/mutants.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(VENV)/%.ready: requirements/%.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Demiurge needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "Making $(VENV) ..." >&2; rm -rf $(VENV); $(PYTHON) -m venv $(VENV) || \
		{ echo "python's venv is missing: on Debian and Ubuntu, apt install python3-venv" >&2; exit 1; }; }
	@$(BIN)/python requirements/install.py requirements/$*.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -j 0 src/demiurge
	@touch $@
