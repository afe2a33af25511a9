# Everything runs in .venv, made on first use. `make demo` and `make test` need nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench clean

demo: $(VENV)/.installed
	@mkdir -p out
	$(BIN)/perfcast predict gpt2-large --device h100-sxm --mode train --batch-size 4 --sequence-length 1024 \
		--dtype bf16 --json out/gpt2-large.json --html out/gpt2-large.html --timeline out/gpt2-large.trace.json

test: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

check: $(VENV)/.installed
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/capture.py
	$(BIN)/python benchmarks/allocator.py
	$(BIN)/python benchmarks/footprint.py
	$(BIN)/python benchmarks/collectives.py
	$(BIN)/python benchmarks/network.py
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/plan_step.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/calculon.py

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) out
