# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
NODE_STAMP := explore/node_modules/.installed

.PHONY: run test lint bench docs links wheel explorer browser clean help

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

run: $(STAMP)  ## train the paper's network on the embedded Cora and show the result
	$(BIN)/armagnn train --out runs/cora --overwrite

test: $(STAMP) lint browser docs  ## linters, types, import contract, documentation, tests
	$(BIN)/pytest -n 2

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)  ## build the documentation site into build/docs; every warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/docs

links: $(STAMP)  ## follow the links of the site to other sites (needs a network)
	$(BIN)/python -m sphinx --quiet -b linkcheck -D plot_gallery=0 docs build/links
	$(BIN)/python docs/refresh_inventories.py

bench: $(STAMP)  ## compare with PyTorch Geometric in one run
	$(BIN)/armagnn bench cpu --out benchmarks/cpu.json

explorer: $(NODE_STAMP)  ## build the explorer's script from explore/ (needs npm)
	cd explore && npm run --silent check && npm run --silent build

# What the tests of the explorer need: a browser, and npm's packages. Where these cannot be had the tests say so and skip.
browser:
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
		|| (export DEBIAN_FRONTEND=noninteractive; timeout 300 apt-get update -qq \
			&& timeout 900 apt-get install -y -qq --no-install-recommends chromium) >/dev/null 2>&1 \
		|| echo "chromium cannot be installed: its tests are skipped"
	@! command -v npm >/dev/null || $(MAKE) --no-print-directory $(NODE_STAMP) >/dev/null 2>&1 \
		|| echo "npm's packages cannot be installed: the tests that need them are skipped"

$(NODE_STAMP): explore/package.json explore/package-lock.json
	cd explore && timeout 600 npm ci --no-audit --no-fund --loglevel=error
	touch $@

wheel: $(STAMP)  ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation
	$(BIN)/python -m build --wheel --no-isolation --outdir dist src/armagnn_paper

# torch comes first and alone: its exact pin selects a CPU build where one is offered.
$(STAMP): pyproject.toml src/armagnn_paper/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt hatchling editables
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]' \
		--editable src/armagnn_paper
	touch $@

clean:
	rm -rf $(VENV) explore/node_modules dist build docs/gallery .pytest_cache .mypy_cache .ruff_cache
