# Two commands do everything on a fresh machine with Python 3.11 and a package index:
#   make demo   336,776 real flights through a replicated log and Spark into tables and a picture
#   make test   the whole test suite
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Where it is set, every process of ours that a test starts compiles every module it imports anew.
unexport PYTHONDONTWRITEBYTECODE
# A worker per core and two more, since many tests wait for other processes; each with whole runs of
# neighbouring tests, so that few start what a module shares.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 2 )))
PARALLEL := -n $(WORKERS) --maxprocesses 8 --dist worksteal

.PHONY: help setup demo test test-quick test-pure test-long check format docs fuzz interop compare kafka-tests powerloss browser pythons \
    wheels release packages soak bench lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: ## .venv with pinned dependencies, the project, and Java for Spark (quick when done before)
	@test -n "$(PYTHON)" || { echo "Fencepost needs Python 3.11 or newer on the PATH"; exit 1; }
	@$(PYTHON) tools/setup_env.py

demo: setup ## flights -> brokers -> Spark -> tables and a chart; a leader dies, none is lost
	$(BIN)/fencepost demo

test: setup ## all tests: unit, machines, real clients, Spark, both backends
	$(PYTEST) $(PARALLEL) tests -m "not long and not interop and not kafka_tests and not powerloss and not pythons and not browser and not packages"
	$(MAKE) --no-print-directory test-pure

# What decides and what is stored, and the rules of the house: two minutes of two cores.
QUICK := tests/machines tests/runtime tests/log tests/batch tests/broker/config \
    tests/test_front_door.py tests/test_import_circles.py tests/test_operations_page.py \
    tests/test_tidy.py tests/test_where_is_the_rule.py tests/test_words.py

test-quick: setup ## the first to run: no server, no Spark, no other client; under two minutes
	$(PYTEST) $(PARALLEL) $(QUICK) -m "not slow and not long"

test-pure: setup ## codec and record batches again without the C extensions
	FENCEPOST_PURE=1 $(PYTEST) $(PARALLEL) tests/wire tests/batch -m "not same_without_c and not long"

test-long: setup ## more seeds, longer lives and larger worlds than `make test` has time for
	-$(BIN)/python -m tests.spark_classes  # without it the tests take longer
	$(PYTEST) $(PARALLEL) tests -m "long and not interop and not kafka_tests and not powerloss and not browser and not packages"

check: setup ## format, lint, types (strict), import contract
	$(BIN)/ruff format --check src tests benchmarks tools examples packaging docs/conf.py
	$(BIN)/ruff check src tests benchmarks tools examples packaging docs/conf.py
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup ## rewrite the sources the way `check` wants them
	$(BIN)/ruff format src tests benchmarks tools examples packaging docs/conf.py
	$(BIN)/ruff check --fix src tests benchmarks tools examples packaging docs/conf.py

docs: ## the documentation as a site with a reference of every message, in build/docs
	@test -n "$(PYTHON)" || { echo "Fencepost needs Python 3.11 or newer on the PATH"; exit 1; }
	@$(PYTHON) tools/setup_env.py --docs
	PYTHONPATH=tools $(BIN)/python -m docs_site

fuzz: ## the codec's decoders under a coverage-guided fuzzer, FENCEPOST_FUZZ_SECONDS long
	@test -n "$(PYTHON)" || { echo "Fencepost needs Python 3.11 or newer on the PATH"; exit 1; }
	@$(PYTHON) tools/setup_env.py --fuzz
	$(PYTEST) tests/fuzz -s

interop: setup ## Apache Kafka's tools and Spark's own connector against `fencepost serve`
	$(PYTEST) tests/interop -m interop --timeout 600

COMPARE_SECONDS ?= 60
COMPARE_SEED ?= $(shell date +%s)

compare: setup ## drawn requests and histories on Fencepost and Apache Kafka, COMPARE_SECONDS a test
	FENCEPOST_COMPARE_SECONDS=$(COMPARE_SECONDS) FENCEPOST_COMPARE_SEED=$(COMPARE_SEED) \
	$(PYTEST) tests/interop/drawn -m interop --timeout 7200

kafka-tests: setup ## Apache Kafka's own integration tests on our nodes, for hours (needs Maven)
	-FENCEPOST_KAFKA_TESTS_JOBS=$${FENCEPOST_KAFKA_TESTS_JOBS:-2} $(BIN)/python -m tests.kafka_tests
	$(PYTEST) tests/kafka_tests -m kafka_tests --timeout 3600

powerloss: setup ## power cuts on real file systems, kills at system calls (as root)
	$(PYTEST) tests/powerloss -m powerloss --timeout 600

browser: setup ## the console's pages and the docs in Debian's Chromium: journeys, accessibility, looks
	$(PYTEST) tests/browser -m browser --timeout 300

pythons: setup ## C extensions built and tested with every Python from 3.11 on that can be had
	$(PYTEST) tests/pythons -s

release-tools: setup
	@$(PYTHON) tools/setup_env.py --release

wheels: release-tools ## a wheel for each CPython from 3.11 on that can be had, and the sdist, in dist
	PYTHONPATH=tools:. $(BIN)/python -m release wheels

release: release-tools ## everything of a release but uploads, in dist: docs/RELEASING.md
	PYTHONPATH=tools:. $(BIN)/python -m release all

packages: release-tools ## what people install is built and tried: wheels, containers, units
	$(PYTEST) tests/packages -m "packages or not packages" -s --timeout 3600

SOAK_MINUTES ?= 60
SOAK_FROM ?= 1000000
SOAK_JOBS ?= $(shell nproc 2>/dev/null || echo 1)
SOAK_LEDGER ?= build/soak.json
# Seeds that are searched for each old bug.
SOAK_SEEDS ?= 300

soak: setup ## the simulator for SOAK_MINUTES from seed SOAK_FROM on, then a search for every old bug
	@mkdir -p $(dir $(SOAK_LEDGER))
	$(BIN)/fencepost sim run --from $(SOAK_FROM) --minutes $(SOAK_MINUTES) --jobs $(SOAK_JOBS) \
	    --ledger $(SOAK_LEDGER); held=$$?; \
	$(BIN)/fencepost sim ablations --seeds $(SOAK_SEEDS) --jobs $(SOAK_JOBS) \
	    --ledger $(SOAK_LEDGER) && exit $$held

bench: setup ## every benchmark, side by side with its peers
	$(BIN)/python benchmarks/run.py

LOCK := uv pip compile -q pyproject.toml --generate-hashes --universal --python-version 3.11 \
    --no-header --no-annotate

lock: ## re-pin requirements/*.txt from pyproject.toml (needs uv)
	$(LOCK) --extra dev -o requirements/dev.txt
	$(LOCK) --extra docs -c requirements/dev.txt -o requirements/docs.txt
	$(LOCK) --extra fuzz -c requirements/dev.txt -o requirements/fuzz.txt
	$(LOCK) --extra release -c requirements/dev.txt -c requirements/docs.txt -o requirements/release.txt

clean: ## forget the environment and everything built
	rm -rf .venv build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .java fencepost-demo
	find src -name '*.so' -delete
