# Everything a newcomer needs is `make demo`; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STUDY  ?=
# Tests that wait for a process leave a core idle: one more of them than there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Importing all modules of tests takes half a minute: those that name a mark (`WHOLE`: of attacks).
MARKED = $(shell grep -rlE '(mark\.($(1))|WHOLE)\b' --include='test_*.py' workbench tests | sort -r)
# Byte-compiling every installed module costs more than the demo itself.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# What is imported is compiled once and kept, whatever the shell says: the tests start thousands
# of processes, and each would compile pandas anew (3 s instead of 0.5).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help lock catalogue dist changelog screenshots agreement truth fuzz fuzz-gpu bench-emulator bench-gate demo test test-slow test-again test-long test-attacks test-cluster test-gpu unit lint house format report profile docs goldens bench vscode clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "workbench needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name a newer one: make PYTHON=python3.12 demo" >&2; exit 3; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null \
	  || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) \
	       && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip 2>/dev/null; } \
	  || { rm -rf $(VENV); \
	       echo "$(PYTHON) cannot make a virtual environment." >&2; \
	       echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 3; }

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing workbench into $(VENV) …"
	@$(PIP) --editable . --constraint constraints.txt
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing workbench with its development tools into $(VENV) …"
	@$(PIP) --editable '.[dev,emulator]' --constraint constraints.txt
	@touch $@ $(VENV)/.demo

$(VENV)/.gpu: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) --editable '.[gpu]' --constraint constraints.txt
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## Install, then list, show, diff and report the recorded ladder (no GPU needed)
	$(BIN)/workbench list
	$(BIN)/workbench show v3
	$(BIN)/workbench diff v2 v3
	$(BIN)/workbench report

test: lint unit ## Lint, types, import borders and the quick tests (no GPU needed)

unit: $(VENV)/.dev ## The quick tests alone
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not gpu and not slow and not long and not attack and not cluster"

test-attacks: $(VENV)/.dev ## All kills, full disks, hostile files, broken kernels (a quarter of an hour)
	WORKBENCH_ATTACKS=1 $(BIN)/python -m pytest -q -n $(WORKERS) -m attack $(call MARKED,attack)

test-slow: $(VENV)/.dev ## The slow tests: a real browser, whole studies on the CPU, a hundredth of the attacks
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "(slow or attack) and not gpu" $(call MARKED,slow|attack|browser)

test-again: $(VENV)/.dev ## What failed last time, once more and one after the other (a busy machine fails clocks)
	$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

test-long: $(VENV)/.dev ## What the slow tests leave out: the other verify problems and mistakes, all recordings
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m long $(call MARKED,long)

lint: $(VENV)/.dev ## Style, types and import borders
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

house: $(VENV)/.dev ## Each room of the packages, its lines and its ceiling
	@$(BIN)/python -m tests.ceilings

format: $(VENV)/.dev ## Rewrite the sources in the project's style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

report: $(VENV)/.demo ## Write the HTML site to reports/
	$(BIN)/workbench report

profile: $(VENV)/.gpu ## Verify, time and profile every version of a study (needs a GPU and ncu)
	$(BIN)/workbench profile --all --time $(STUDY)

test-cluster: $(VENV)/.dev ## --on slurm on a real Slurm: two nodes, four fake GPUs (root; apt-get installs it)
	workbench/cluster/tests/install.sh
	$(BIN)/python -m pytest -q -m cluster workbench/cluster/tests

test-gpu: $(VENV)/.dev $(VENV)/.gpu ## The tests that need a GPU, ncu and compute-sanitizer
	$(BIN)/python -m pytest -q -m gpu tests/gpu

# Study and problem of each figure in docs/ladders.
LADDERS = conv2d:c64_h128_k256 conv2d_int8:n32_c128 conv2d_half:n32_c128 conv2d_direct:n4096 \
  conv2d_tile:c6 sgemm:n4096 scale_add:n8192

docs: $(VENV)/.dev ## Regenerate the generated parts of docs/
	$(BIN)/python docs/counters.py > docs/counters.md
	$(BIN)/python docs/swizzles.py > docs/ladders/swizzles.md
	$(BIN)/python docs/tables.py
	for each in $(LADDERS); do $(BIN)/workbench export figure ladder $$each@h200 \
	  --out docs/images/ladder-$${each%:*}.svg || exit 1; done

dist: $(VENV)/.dev ## Build wheel and sdist into dist/, and try the wheel in an empty environment
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m tests.wheel dist

# No hashes: with them pip refuses an editable install. What a package is needed for, and where, is
# said in pyproject.toml: a constraint installs nothing by itself.
lock: | $(BIN)/python ## The newest versions that fit pyproject.toml, into constraints.txt; run the tests with them
	mkdir -p build
	$(PIP) --dry-run --ignore-installed --report build/resolved.json '.[dev,emulator,triton,parquet,plot,mcp,lsp,gpu,cluster,tune]'
	$(BIN)/python docs/lock.py build/resolved.json > constraints.txt

catalogue: $(VENV)/.dev ## Collect what is to be translated, and compile the translations
	$(BIN)/python -m tests.catalogue

changelog: $(VENV)/.dev ## The changelog's next section, from the files in changes/
	@$(BIN)/towncrier build --draft --version $$($(BIN)/python -c 'import workbench; print(workbench.__version__)')

screenshots: $(VENV)/.dev ## Pictures of the report in a real browser, into docs/images/
	$(BIN)/python docs/screenshots.py

goldens: $(VENV)/.dev ## Rewrite the golden files; read the diff before you commit it
	WORKBENCH_UPDATE_GOLDENS=1 $(BIN)/python -m pytest -q $$(grep -rl --include="test_*.py" goldens tests workbench)

agreement: $(VENV)/.demo ## The emulator's counters against every recorded profile, as a table
	$(BIN)/python -m benchmarks.agreement --jobs $(or $(JOBS),1)

truth: $(VENV)/.demo ## What is told of every labelled step and program, judged (PAIRS=folder of other people's reports)
	@code=0; for of in "$(if $(PAIRS),--pairs $(PAIRS))" $(if $(PAIRS),"--public $(PAIRS)") \
	    "--labels tests/data/truth/unseen.toml --project tests/data/unseen" \
	    "--labels tests/data/truth/apart.toml" \
	    "--labels tests/data/truth/apart_unseen.toml --project tests/data/unseen" --programs --shown \
	    "--shown --project tests/data/unseen"; do \
	    $(BIN)/python -m benchmarks.truth $$of || code=$$?; done; exit $$code

fuzz: $(VENV)/.demo ## 2,600 damaged kernels in the emulator (an hour; FUZZ=file for findings)
	$(BIN)/python -m benchmarks.fuzz emulator $(or $(FUZZ),reports/fuzz-emulator.jsonl)

fuzz-gpu: $(VENV)/.gpu ## The same ones on a GPU, and what both say of each
	$(BIN)/python -m benchmarks.fuzz gpu reports/fuzz-gpu.jsonl
	$(BIN)/python -m benchmarks.fuzz compare $(or $(FUZZ),reports/fuzz-emulator.jsonl) reports/fuzz-gpu.jsonl

bench-gate: $(VENV)/.gpu ## How good the gate is: planted slow-downs, measured 50 times (a GPU, four minutes)
	rm -f reports/gate.jsonl
	$(BIN)/python -m benchmarks.gate run reports/gate.jsonl
	$(BIN)/python -m benchmarks.gate curve reports/gate.jsonl

bench-emulator: $(VENV)/.dev ## The emulator's speed, and numba's CUDA simulator beside it
	@$(PIP) numba
	$(BIN)/python benchmarks/emulator.py

bench: $(VENV)/.demo ## Start-up, reading and report times, as ratios taken in one run
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/attribution.py
	$(BIN)/python benchmarks/blame.py
	$(BIN)/python benchmarks/report.py site --profiles 50 100
	$(BIN)/python benchmarks/serving.py changes
	$(BIN)/python benchmarks/many.py --profiles 100 1000

# What the lock file names, each with its checksum, and no script of theirs.
vscode: ## The extension for VS Code as build/vscode/*.vsix, tried (needs npm)
	rm -rf build/vscode && mkdir -p build && cp -r editors/vscode build/vscode && cp LICENSE build/vscode
	cd build/vscode && timeout 120 npm ci --ignore-scripts --prefer-offline --no-audit --no-fund \
	  --fetch-timeout=20000 --fetch-retries=2 && npm pack --silent --ignore-scripts
	$(PYTHON) editors/vsix.py build/vscode
	$(PYTHON) -m tests.vsix build/vscode

clean: ## Remove the virtual environment, caches and generated pages
	rm -rf $(VENV) artifacts build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find reports -mindepth 1 ! -name .gitignore -delete
