# All tools run from .venv/bin, which `make setup` fills from requirements.lock.
SHELL := /bin/sh
BIN := .venv/bin
READY := .venv/.ready
BUF := $(BIN)/buf
UV_VERSION := 0.13.9

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test leak-test fault-test bench lint format protos protos-check baseline lock clean
.PHONY: compose-env compose-up compose-test compose-chaos compose-down

help: ## this table
	@echo "The run and audit services of SuperBizAgent. Start with: make demo"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "Every target first sets up what it needs. PYTHON=/path/to/python picks another Python (3.11 or newer)."

setup: $(READY) ## create .venv with the locked packages (needs only Python 3.11+)
	@echo "setup: .venv is ready"

$(READY): requirements.lock pyproject.toml
	@python=$$(tools/find-python) && "$$python" tools/setup_venv.py
	@touch $@

# The question is taken unexpanded, then travels as an environment variable: no shell ever parses it.
demo: export DEMO_QUESTION := $(value Q)
unexport Q
demo: $(READY) ## one real diagnosis on a real pair of services; make demo Q="..." asks another question
	@$(BIN)/superbizagent demo $${DEMO_QUESTION:+--question="$$DEMO_QUESTION"}

leak-test: $(READY) ## put canaries in everywhere, look for them everywhere; sinks x shapes as a table
	@$(BIN)/pytest tests/leak $(T)

fault-test: export SUPERBIZ_TEST_FAULT_SEED := $(SEED)
fault-test: export SUPERBIZ_TEST_FAULT_MINUTES := $(MINUTES)
fault-test: $(READY) ## what goes wrong from outside, under load, as a table; SEED=7 again, MINUTES=30 at random
	@$(BIN)/pytest $(if $(SEED)$(MINUTES),tests/faults/test_random_faults.py,tests/faults) $(if $(MINUTES),-s) $(T)

bench: $(READY) ## what the services reach beside what the machine allows, as a table; make bench B="--engine mariadb"
	@$(BIN)/python -m benchmarks $(B)

test: $(READY) ## every test; make test T="tests/unit -k lease" runs some of them
	@$(BIN)/pytest $(T)

lint: $(READY) ## ruff, mypy --strict, import-linter, buf, generated code in sync, contracts metadata only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BUF) lint
	$(BUF) breaking --against protos/baseline.binpb
	$(BIN)/python tools/protos.py --check
	$(BIN)/superbizagent contract-check

format: $(READY) ## rewrite the code in the house style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BUF) format --write protos

protos: $(READY) ## regenerate the Python code beside the .proto files
	@$(BIN)/python tools/protos.py

protos-check: $(READY) ## fail with a diff if the generated code is out of sync
	@$(BIN)/python tools/protos.py --check

baseline: $(READY) ## accept the contracts as they are as the new baseline (needs a CHANGELOG entry)
	$(BUF) build --exclude-source-info -o protos/baseline.binpb

lock: $(READY) ## resolve pyproject.toml anew into requirements.lock and its two parts for the image
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command "make lock" -o requirements.lock
	@# What the image gets, and what builds its wheel: the very versions of requirements.lock.
	$(BIN)/uv pip compile pyproject.toml --constraint requirements.lock --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command "make lock" -o requirements-runtime.lock
	$(BIN)/uv pip compile --group build --constraint requirements.lock --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command "make lock" -o requirements-build.lock

compose-env: ## make the passwords of docker-compose.yml, once, in .env
	@python=$$(tools/find-python) && "$$python" tools/compose_env.py

compose-up: compose-env ## build the image and bring up MySQL, Redis, the migration and both services
	docker compose up --build --detach --wait
	@docker compose ps --format 'table {{.Service}}\t{{.Status}}\t{{.Ports}}'

compose-test: $(READY) ## the black-box scenarios against the running compose stack
	$(BIN)/python -m tools.compose_test

compose-chaos: $(READY) ## kill each part of the running compose stack in turn under load, and count
	$(BIN)/python -m tests.compose.chaos

compose-down: ## stop the compose stack; its database stays (docker compose down -v removes it)
	docker compose down

clean: ## remove .venv, caches and builds; databases stay
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
