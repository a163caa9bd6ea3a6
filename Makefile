# Every target sets up what it needs by itself: Python 3.11+, make and a package index are enough.
# The environment is .venv; a stamp per set of extras makes the second run instant. Paths are
# relative throughout, so that the checkout may lie anywhere, in a folder with spaces too.

.DEFAULT_GOAL := help
# Two pip runs must not work on one environment at a time.
.NOTPARALLEL:
.DELETE_ON_ERROR:

PYTHON ?=
ARGS ?=
# Of tests one more than two cores: it works while the others wait for browsers, brokers and kills.
TEST_WORKERS := $(or $(WORKERS),3)
WORKERS ?= 2
COUNT ?= 1000000

RUN := .venv/bin/python
# The stamps carry the checkout's place: a copied or moved .venv would still point at the old one.
STAMPS := .venv/.stamps-$(shell pwd | cksum | cut -d ' ' -f 1)
comma := ,

# Tests on real streams need data that is not part of the repository.
ifneq ($(wildcard ../shared/data/.),)
export TIDEGATE_DATA ?= $(CURDIR)/../shared/data
endif

.PHONY: help demo test test-cluster test-service bench-service matrix lint fuzz power power-cuts bench bench-accuracy bench-short bench-coverage experiments experiments-quick docs format clean

help: ## show this list
	@printf 'Tidegate. Each target sets itself up in .venv; nothing else is touched.\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F '|' '{printf "%-25s %s\n", $$1, $$2}'
	@printf '\nVariables: PYTHON=python3.12 (which Python .venv is made from), ARGS="-k forest" (handed to\n'
	@printf 'pytest, the demo or the benchmarks), WORKERS=0 (tests in one process, for a debugger).\n'

demo: $(STAMPS)/demo ## a stream goes in, a private one comes out: see it in a minute
	@$(RUN) -m tidegate.demo $(ARGS)

# worksteal: each worker has a run of files to itself, so that what tests share is made once.
test: $(STAMPS)/test ## the whole suite, with the examples of docstrings and docs
	@$(RUN) -m pytest -n $(TEST_WORKERS) --dist worksteal $(ARGS)

test-cluster: $(STAMPS)/test ## a real Spark cluster and brokers, killed again and again (four minutes)
	@TIDEGATE_THOROUGH=1 TIDEGATE_CLUSTER=64 $(RUN) -m pytest -n $(WORKERS) tests/spark/test_cluster.py tests/brokers -k "kills" $(ARGS)

test-service: $(STAMPS)/test ## the service killed 100 times on both databases, its database gone for a minute (ten minutes)
	@TIDEGATE_THOROUGH=1 TIDEGATE_KILLS=100 TIDEGATE_DATABASE_GONE=60 $(RUN) -m pytest -n $(WORKERS) tests/service/test_kills.py tests/service/test_faults.py $(ARGS)

matrix: $(STAMPS)/test ## what could depend on the machine, on other Pythons, numpys, processors
	@$(RUN) tools/check_matrix.py $(ARGS)

lint: $(STAMPS)/test+lint ## style, types, layers
	@$(RUN) -m ruff check
	@$(RUN) -m ruff format --check
	@$(RUN) -m mypy
	@.venv/bin/lint-imports --no-logo

format: $(STAMPS)/demo+lint ## let ruff mend what it can
	@$(RUN) -m ruff check --fix-only --quiet
	@$(RUN) -m ruff format

fuzz: $(STAMPS)/test ## hostile input for every parser: COUNT inputs (a million) on WORKERS processes
	@$(RUN) -m tests.fuzz.harness --count $(COUNT) --workers $(WORKERS) $(ARGS)

power: $(STAMPS)/test ## plant errors of 30 %, one by one: the tests that guard them must fail (half an hour)
	@$(RUN) tools/check_power.py $(ARGS)

power-cuts: $(STAMPS)/test ## every disk that a power cut may leave, byte by byte (needs strace; ten minutes)
	@TIDEGATE_THOROUGH=1 TIDEGATE_POWER_CUTS=1 $(RUN) -m pytest -n $(WORKERS) tests/durable/test_power_cuts.py tests/local/test_power_cuts.py $(ARGS)

bench: $(STAMPS)/test ## throughput and accuracy, measured on this machine
	@$(RUN) -m benchmarks $(ARGS)

bench-service: $(STAMPS)/test ## the service under load, beside its targets (ARGS=soak: half an hour)
	@$(RUN) -m benchmarks.service $(ARGS)

bench-accuracy: $(STAMPS)/test ## adaptive against ToPS on the streams of TIDEGATE_DATA (five minutes)
	@$(RUN) -m benchmarks.accuracy_adaptive $(ARGS)

bench-short: $(STAMPS)/test ## short streams: error over that of the best threshold in hindsight (ten minutes)
	@$(RUN) -m benchmarks.short_streams $(ARGS)

bench-coverage: $(STAMPS)/test ## whether intervals hold the true sum, on streams that no constant was chosen on (twenty minutes)
	@$(RUN) -m benchmarks.coverage $(ARGS)

experiments: $(STAMPS)/experiments ## every figure of the paper: results, pictures, one HTML page (five minutes)
	@$(RUN) -m experiments run $(ARGS)
	@$(RUN) -m experiments report $(ARGS)

experiments-quick: $(STAMPS)/experiments ## the same with few runs and few epsilons (two minutes)
	@$(RUN) -m experiments run --quick $(ARGS)
	@$(RUN) -m experiments report --quick $(ARGS)

# Not --quiet: it would hide warnings from --strict too.
docs: $(STAMPS)/docs ## the documentation, into site/
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict
	@echo 'open site/index.html'

clean: ## remove .venv and everything that was made
	rm -rf .venv .matrix site build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.made:
	@sh tools/make_venv.sh "$(PYTHON)"

$(STAMPS)/%: pyproject.toml src/tidegate/_version.py | .venv/.made
	@echo 'Setting up .venv: tidegate with [$(subst +,$(comma) ,$*)] (once; a minute or less) ...'
	@$(RUN) -m pip install -qq --disable-pip-version-check --editable '.[$(subst +,$(comma),$*)]'
	@mkdir -p $(STAMPS) && touch $@
