# Everything runs in .venv, made on first use. `make demo` and `make test` need nothing else.
PYTHON ?= python3
VENV := .venv
TOOLS := .venv-tools
BIN := $(VENV)/bin

.PHONY: demo test test-torch check docs docs-figures lock packages sbom audit bench gpu-check fuzz fuzz-web faults clean

demo: $(VENV)/.installed
	@mkdir -p out
	$(BIN)/perfcast predict gpt2-large --device h100-sxm --mode train --batch-size 4 --sequence-length 1024 \
		--dtype bf16 --json out/gpt2-large.json --html out/gpt2-large.html --timeline out/gpt2-large.trace.json

test: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

# What touches PyTorch, with another release of it: make test-torch VERSION=2.15.0
# (with PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu a build without CUDA's libraries is taken).
VERSION ?= 2.15.0
TORCH_VENV := .venv-torch-$(VERSION)
TORCH_TESTS := tests/torch_internals tests/workload tests/memory_use tests/traces tests/replays tests/test_examples.py

test-torch: $(TORCH_VENV)/.installed
	$(TORCH_VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile $(TORCH_TESTS)

$(TORCH_VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TORCH_VENV)
	grep -v -E '^torch(vision)?==' constraints.txt > $(TORCH_VENV)/constraints.txt
	$(TORCH_VENV)/bin/pip install --quiet --disable-pip-version-check --constraint $(TORCH_VENV)/constraints.txt \
		torch==$(VERSION) --editable '.[dev]'
	@touch $@

check: $(VENV)/.installed
	$(BIN)/ruff format --check src tests benchmarks docs/tools packaging
	$(BIN)/ruff check src tests benchmarks docs/tools packaging
	$(BIN)/mypy

# The documentation, into out/docs/index.html; a dead link or a page that nothing leads to is an error.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# What pages show of examples, and of suites on the rows that are shipped, written anew (ten minutes).
docs-figures: $(VENV)/.installed
	$(BIN)/python docs/tools/examples.py --write
	$(BIN)/python docs/tools/figures.py
	$(BIN)/python docs/tools/published_tables.py

# Every benchmark that needs neither a GPU nor data of others, against the stated goals; into out/bench.json.
BENCH ?=

# On a machine with a GPU of NVIDIA or AMD: forecasts beside measurements, twenty minutes, into out/gpu-check.json.
# With the first Python whose PyTorch sees a GPU: that of .venv, or $(PYTHON) as it stands (which needs no network).
SEES := import sys, torch; sys.exit(not torch.cuda.is_available())
GPU_CHECK := gpu-check --output out/gpu-check.json $(if $(BUDGET),--budget $(BUDGET))

gpu-check:
	@mkdir -p out
	@if $(BIN)/python -c "$(SEES)" 2>/dev/null; then $(BIN)/python -m perfcast $(GPU_CHECK); \
	elif $(PYTHON) -c "$(SEES)" 2>/dev/null; then \
		echo "with $(PYTHON), whose PyTorch sees a GPU"; \
		PYTHONPATH="$(CURDIR)/src$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON) -m perfcast $(GPU_CHECK); \
	else make $(VENV)/.installed && $(BIN)/python -m perfcast $(GPU_CHECK); fi

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/every.py --json out/bench.json $(if $(BENCH),--only $(BENCH))

# Every door at random: CASES inputs each, by coverage where atheris is installed; laws and the API's own description
# too. Ctrl-C stops; the next call goes on. `make fuzz ONLY=text/,file/` takes some of the targets.
CASES ?= 100000
ONLY ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

fuzz: $(VENV)/.fuzz
	$(BIN)/python tests/fuzz/every.py --cases $(CASES) --jobs $(JOBS) --only "$(ONLY)"
	$(if $(ONLY),,test ! -d tests/laws || PERFCAST_FUZZ_CASES=$(CASES) $(BIN)/python -m pytest -q -n $(JOBS) tests/laws)
	$(if $(ONLY),,$(MAKE) fuzz-web)

fuzz-web: $(VENV)/.installed
	PERFCAST_API_EXAMPLES=300 $(BIN)/python -m pytest -q tests/server/test_openapi.py
	$(BIN)/python tests/hostile_requests.py 10000

# atheris has wheels for some releases of Python alone; without it hypothesis draws, and says so.
# Kill -9 at random moments inside all work that goes on where it was stopped, so often each.
KILLS ?= 50

faults: $(VENV)/.installed
	$(BIN)/python tests/faults/every.py --kills $(KILLS) --only "$(ONLY)"

$(VENV)/.fuzz: $(VENV)/.installed
	-$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[fuzz]'
	@touch $@

# Everything by the hashes of packaging/locks. Of PyTorch pip chooses the build; where it is one for CUDA, what that needs comes too.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
LOCKS := packaging/locks

$(VENV)/.installed: pyproject.toml $(LOCKS)/dev.txt $(LOCKS)/torch.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-deps --only-binary :all: --constraint constraints.txt --report $(VENV)/torch.json torch
	$(BIN)/python packaging/verify.py $(VENV)/torch.json $(LOCKS)/torch.txt
	$(INSTALL) --require-hashes --no-deps --requirement $(LOCKS)/dev.txt
	if grep -q "^Requires-Dist: nvidia" $(VENV)/lib*/python*/site-packages/torch-*.dist-info/METADATA; then \
		$(INSTALL) --require-hashes --no-deps --requirement $(LOCKS)/cuda.txt; fi
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# The locks, written anew after a change of constraints.txt or of what pyproject.toml asks for.
lock: $(TOOLS)/.installed
	$(TOOLS)/bin/python packaging/lock.py

# Wheel and source archive: built twice and alike, installed bare and run on every Python that is here, or on PYTHONS.
PYTHONS ?=

packages: $(VENV)/.installed
	$(BIN)/python packaging/check.py $(PYTHONS)

# The bill of materials, and known faults of what is locked (which needs a network).
sbom: $(TOOLS)/.installed
	@mkdir -p out
	cat $(LOCKS)/perfcast.txt $(LOCKS)/torch.txt > out/locked.txt
	$(TOOLS)/bin/cyclonedx-py requirements out/locked.txt --pyproject pyproject.toml --output-reproducible \
		--output-file out/perfcast.cdx.json

audit: $(TOOLS)/.installed
	for lock in dev torch extras; do \
		$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --requirement $(LOCKS)/$$lock.txt || exit 1; done

$(TOOLS)/.installed: $(LOCKS)/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement $(LOCKS)/tools.txt
	@touch $@

clean:
	rm -rf $(VENV) $(TOOLS) out
