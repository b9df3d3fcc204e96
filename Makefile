# Everything a fresh machine needs is Python 3.11 or newer with venv, and Java 17 or 21.
PYTHON ?= python3
VENV   ?= .venv
SPARK  ?= 4.1
BIN    := $(VENV)/bin
FUZZ_MINUTES ?= 10
SEED   ?= 1
MINUTES ?= 10
ROWS   ?= 5000000
ROUNDS ?= 5
export PEER_JAR
MINORS := 4.0 4.1 4.2 4.3

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help check check-python jar quickstart guide flights lint lint-scala format unit fuzz replay trial compat test test-spark test-oldest test-all bench bench-maintenance bench-cancels bench-core bench-memory bench-scaling golden dist dist-all docs clean clean-all

help:  ## Show the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ------------------------------------------------------------------------------------------------------- environments

check: check-python
	@$(PYTHON) -m paimon_spark.bridge.java $(SPARK)

check-python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed, but '$(PYTHON)' was not found. Install it, or run: make PYTHON=/path/to/python3 …" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, but '$(PYTHON)' is $$($(PYTHON) -V). Run: make PYTHON=python3.11 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing. Install it, for example: apt-get install python3-venv" >&2; exit 1; }

$(BIN)/python:
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml | check-python $(BIN)/python
	@echo "Installing paimon-spark and Spark into $(VENV) (Spark is large: a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . "pyspark==$(SPARK).*"
	@touch $@

$(VENV)/.examples: $(VENV)/.runtime
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[examples]'
	@touch $@

$(VENV)/.test: $(VENV)/.runtime
	@echo "Installing the tools of the tests into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]' "pyspark==$(SPARK).*"
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]' "pyspark==$(SPARK).*"
	@touch $@

.venv-3.5/.ready: | check-python
	@echo "Installing the Spark of the released Paimon into .venv-3.5"
	@$(PYTHON) -m venv .venv-3.5
	@.venv-3.5/bin/python -m pip install --quiet --disable-pip-version-check "pyspark==3.5.*" setuptools
	@touch $@

.venv-peers/.ready: tests/peers/requirements.txt | check-python
	@echo "Installing pypaimon into .venv-peers"
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r tests/peers/requirements.txt
	@touch $@

.venv-dbt/.ready: tests/end_to_end/dbt/requirements.txt | check-python
	@echo "Installing dbt into .venv-dbt"
	@$(PYTHON) -m venv .venv-dbt
	@.venv-dbt/bin/python -m pip install --quiet --disable-pip-version-check -r tests/end_to_end/dbt/requirements.txt
	@touch $@

# -------------------------------------------------------------------------------------------------------------- using

jar: check $(VENV)/.runtime  ## Build the bridge for the installed Spark, if it is not there yet
	@$(BIN)/python -m paimon_spark.bridge.jars

quickstart: check $(VENV)/.runtime  ## Install everything and run sql/quickstart.sql through the stock spark-sql
	@$(BIN)/python -m paimon_spark.bridge.jars >/dev/null
	@rm -rf build/quickstart
	@$(BIN)/paimon-spark sql --warehouse build/quickstart --format table --echo -d license=$(CURDIR)/LICENSE -f sql/quickstart.sql

guide: check $(VENV)/.runtime  ## The quick start of Paimon's Flink guide, with its stream: sql/guide/quickstart.sql
	@$(BIN)/paimon-spark sql --format table --echo -f sql/guide/quickstart.sql

flights: check $(VENV)/.examples  ## A longer quick start on 336,776 real flights: sql/examples/flights.sql
	@$(BIN)/python sql/examples/flights_to_parquet.py build/flights
	@rm -rf build/flights/warehouse
	@$(BIN)/paimon-spark sql --warehouse build/flights/warehouse --format table --echo -d data=$(CURDIR)/build/flights -f sql/examples/flights.sql

# ----------------------------------------------------------------------------------------------------------- checking

SCALAFMT := $(shell sed -n 's/^version = "\(.*\)"/\1/p' paimon_spark/bridge/scala/.scalafmt.conf)
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
FORMAT_SCALA = $(JAVA) -cp "$$(cat $(VENV)/.scalafmt-$(SCALAFMT))" org.scalafmt.cli.Cli --non-interactive --quiet --config paimon_spark/bridge/scala/.scalafmt.conf paimon_spark/bridge/scala

$(VENV)/.scalafmt-$(SCALAFMT): | $(VENV)/.runtime
	@$(JAVA) -jar $$(ls $(VENV)/lib/python3.*/site-packages/pyspark/jars/ivy-*.jar) -warn -dependency org.scalameta scalafmt-cli_2.13 $(SCALAFMT) -confs default -cachepath $@ >/dev/null

lint: $(VENV)/.test  ## ruff, mypy --strict, import contracts, size limits
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest -q -p no:cacheprovider tests/unit/test_house.py

lint-scala: check $(VENV)/.scalafmt-$(SCALAFMT)  ## Whether scalafmt, which is downloaded, would change the Scala sources
	@$(FORMAT_SCALA) --test

format: check $(VENV)/.test $(VENV)/.scalafmt-$(SCALAFMT)  ## Format the code, and apply the fixes of ruff
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(FORMAT_SCALA)

UNIT := -q -n 2 -m "not spark and not e2e and not peer and not slow" tests/unit tests/property tests/tables tests/fuzz

SPARK_TESTS := -q -n 2 --dist loadfile tests/spark tests/sql tests/end_to_end tests/peers

unit: $(VENV)/.test  ## The tests that start no JVM
	@$(BIN)/pytest $(UNIT)

$(VENV)/.classes: $(VENV)/.runtime
	@echo "Archiving the classes of Spark for faster starts"
	@$(BIN)/paimon-spark env --class-archive >/dev/null && touch $@ || true

test: check $(VENV)/.test .venv-peers/.ready $(VENV)/.classes unit  ## All tests but the slow ones
	@$(BIN)/pytest $(SPARK_TESTS) -m "(spark or e2e or peer) and not slow"

test-spark: check  ## The Spark tests on another release: make test-spark SPARK=4.2
	@$(MAKE) --no-print-directory VENV=.venv-$(SPARK) SPARK=$(SPARK) .venv-$(SPARK)/.test
	@.venv-$(SPARK)/bin/pytest $(SPARK_TESTS) -m "(spark or e2e) and not slow"

.venv-oldest/.test: pyproject.toml tests/oldest.txt | check-python
	@echo "Installing the oldest releases of everything into .venv-oldest"
	@$(PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c tests/oldest.txt -e '.[test]'
	@touch $@

test-oldest: .venv-oldest/.test  ## The tests that start no JVM, with the oldest releases of all dependencies
	@.venv-oldest/bin/pytest $(UNIT)

test-all: test dist .venv-dbt/.ready  ## All tests, the slow ones and Paimon's own Java release included
	@$(BIN)/pytest -q -n 2 --dist worksteal -m "slow and not spark and not e2e and not peer"
	@$(BIN)/pytest -q -n 2 --dist loadfile -m "slow and (spark or e2e or peer)"

$(VENV)/.fuzz: $(VENV)/.test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	@touch $@

fuzz: $(VENV)/.fuzz  ## Fuzz every parser for FUZZ_MINUTES (10), or only some: make fuzz TARGETS='call row'
	@$(BIN)/python -m tests.fuzz.run --minutes $(FUZZ_MINUTES) $(TARGETS)

replay: $(VENV)/.test  ## Run one input that fuzzing saved: make replay INPUT=build/fuzz/call/….bin
	@$(BIN)/python -m tests.fuzz.run --replay "$(INPUT)"

trial: check $(VENV)/.test  ## Change tables here and by Paimon in turn: make trial SEED=7 MINUTES=30 PEER_JAR=/path/to/paimon.jar
	@$(BIN)/python -m tests.peers.trial --seed $(SEED) --minutes $(MINUTES) --jar "$(PEER_JAR)"

compat: check $(VENV)/.test .venv-peers/.ready  ## Which kinds of tables the peers read and write: docs/compatibility-matrix.md
	@$(BIN)/python -m tests.peers.compat $(if $(PEER_JAR),--jar $(PEER_JAR))

bench-cancels: check $(VENV)/.bench  ## Seconds from the cancel of a CALL until it ends
	@$(BIN)/python -m paimon_spark.bridge.jars >/dev/null
	@$(BIN)/python -m benchmarks.cancels

bench: check $(VENV)/.bench $(if $(PEER_JAR),,.venv-3.5/.ready)  ## Compare with Paimon, Iceberg, Delta and plain Parquet: make bench ROWS=1000000 ROUNDS=3 KINDS=ORC,aggregation
	@$(BIN)/python -m paimon_spark.bridge.jars >/dev/null
	@$(BIN)/python -m benchmarks --rows $(ROWS) --rounds $(ROUNDS) $(if $(KINDS),--kinds "$(KINDS)") $(if $(COMMITS),--commits $(COMMITS)) $(if $(filter no,$(RESCALE)),--no-rescale) $(if $(ORPHANS),--orphans $(ORPHANS)) --peer-python .venv-3.5/bin/python

bench-maintenance: check $(VENV)/.bench $(if $(PEER_JAR),,.venv-3.5/.ready)  ## Rescales beside compactions, and orphan cleaning: make bench-maintenance ORPHANS=1000000
	@$(BIN)/python -m paimon_spark.bridge.jars >/dev/null
	@$(BIN)/python -m benchmarks.maintenance --rows $(ROWS) --rounds $(ROUNDS) $(if $(filter no,$(RESCALE)),--no-rescale) $(if $(ORPHANS),--orphans $(ORPHANS)) --peer-python .venv-3.5/bin/python

bench-core: $(VENV)/.bench  ## The parts of the core without Spark, each beside its floor
	@$(BIN)/python -m benchmarks.core

bench-memory: check $(VENV)/.bench  ## The memory of merges, compactions, plans and a large load
	@$(BIN)/python -m paimon_spark.bridge.jars >/dev/null
	@$(BIN)/python -m benchmarks.memory

bench-scaling: $(VENV)/.bench  ## What plans, commits and expiry cost as tables list more files: make bench-scaling SCALING='--files 300000'
	@$(BIN)/python -m benchmarks.scaling $(SCALING)

golden: check $(VENV)/.test  ## Rewrite the expected answers of the SQL scripts; review the difference
	@PAIMON_SPARK_ACCEPT=1 $(BIN)/pytest -q -m "not slow" tests/sql

# ---------------------------------------------------------------------------------------------------------- releasing

dist: check $(VENV)/.test  ## Build the wheel, with a bridge jar for every Spark release installed in a .venv*
	@rm -rf dist paimon_spark/bridge/jars
	@for python in $(BIN)/python $(wildcard .venv-4.*/bin/python); do $$python -m paimon_spark.bridge.jars --prebuild || exit 1; done
	@$(BIN)/python -m build --quiet --no-isolation --wheel .
	@ls -l dist

dist-all: check  ## The same for all supported Spark releases, installing each into its own environment
	@for minor in $(MINORS); do $(MAKE) --no-print-directory VENV=.venv-$$minor SPARK=$$minor .venv-$$minor/.runtime || exit 1; done
	@$(MAKE) --no-print-directory dist

docs: $(VENV)/.test  ## Build the documentation into build/docs
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@$(BIN)/mkdocs build --strict --site-dir build/docs

clean:  ## Remove what was built, keep the environments
	@rm -rf build dist paimon_spark/bridge/jars .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

clean-all: clean  ## Remove the environments too
	@rm -rf .venv .venv-* .cache
