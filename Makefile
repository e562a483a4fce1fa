# Two commands: `make demo` does the main job, `make test` passes the tests. Both set everything up first.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
say = @printf '\033[1m==> %s\033[0m\n'

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-heavy check format bench lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.venv/installed: requirements.lock pyproject.toml
	$(say) "Setting up .venv with the locked packages (once; about 600 MB on disk)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Slipstream needs Python 3.11 or newer; set PYTHON=python3.11")'
	@$(PYTHON) -m venv .venv
	@$(PIP) install --require-hashes --progress-bar on -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/installed-dev: .venv/installed requirements-dev.lock
	$(say) "Adding the packages that the tests need"
	@$(PIP) install --require-hashes --progress-bar on -r requirements-dev.lock
	@touch $@

setup: .venv/installed ## Install the locked packages into .venv

demo: .venv/installed ## Ingest real documents, start the server, ask, stream cited answers with their waterfalls
	@$(BIN)/slipstream demo

test: .venv/installed-dev ## Lint, type-check and run every test (fetches two small models on first use)
	$(say) "ruff, mypy"
	@$(BIN)/ruff check src tests && $(BIN)/ruff format --check --quiet src tests && $(BIN)/mypy
	$(say) "Models for the tests (fetched and converted once)"
	@$(BIN)/slipstream models pull
	$(say) "pytest"
	@$(BIN)/python -m pytest -m "not heavy"

.venv/installed-heavy: .venv/installed-dev requirements-heavy.lock
	$(say) "Adding a real Milvus server (56 MB, no dependencies)"
	@$(PIP) install --require-hashes --no-deps -r requirements-heavy.lock
	@touch $@

test-heavy: .venv/installed-heavy ## The long tests: soaks, large collections, repeated kill -9, a real Milvus server
	@$(BIN)/python -m pytest -m heavy --timeout 3600

check: .venv/installed-dev ## Lint and types only
	@$(BIN)/ruff check src tests && $(BIN)/ruff format --check src tests && $(BIN)/mypy

format: .venv/installed-dev ## Rewrite the code in the house format
	@$(BIN)/ruff check --fix src tests; $(BIN)/ruff format src tests

bench: .venv/installed ## Measure every claim on this machine, and retrieval quality on the shipped samples
	@$(BIN)/slipstream prove
	@$(BIN)/slipstream bench quality

lock: .venv/installed-dev ## Resolve the dependencies anew
	@$(PIP) install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --extra build -o requirements.lock --generate-hashes --no-header --universal --quiet
	@$(BIN)/uv pip compile pyproject.toml --extra build --group dev -o requirements-dev.lock --generate-hashes --no-header --universal --quiet
	@$(BIN)/uv pip compile --group heavy -o requirements-heavy.lock --generate-hashes --no-header --universal --quiet

clean: ## Remove .venv and caches of the tools (models and data stay)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build
