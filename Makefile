.DEFAULT_GOAL := help
.PHONY: help run run-postgres cluster cluster-stop test check bench bench-quick bench-all bench-peers soak chaos chaos-cluster simulate simulate-cluster simulate-long spark example-stream example-pipeline format lock clean setup

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

run: ## set up and start the broker on ./data, or QUIVER_DATA_DIR
	@scripts/setup runtime
	@.venv/bin/quiver serve

run-postgres: ## the same on a PostgreSQL cluster of its own in ./data-postgres
	@scripts/setup runtime
	@scripts/system-packages postgres
	@scripts/run-postgres

cluster: ## three nodes and etcd on this machine, in the background, on ./data-cluster
	@scripts/setup runtime
	@scripts/system-packages curl etcd
	@scripts/run-cluster start

cluster-stop: ## stop them; the data stays
	@scripts/run-cluster stop

test: setup ## set up and run every test
	@scripts/system-packages
	@.venv/bin/pytest --numprocesses 4 --dist loadscope

check: setup ## what to run before a commit: format, lint, types, layers, generated code, fast tests
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache
	@.venv/bin/python scripts/unasync.py --check
	@.venv/bin/python scripts/diagrams.py --check
	@.venv/bin/pytest tests/tidy tests/unit tests/contract -k "not test_gate"

format: setup ## format the code and write the generated files again
	@.venv/bin/python scripts/unasync.py
	@.venv/bin/python scripts/diagrams.py
	@.venv/bin/python scripts/dashboards.py
	@.venv/bin/python scripts/request_paths.py
	@.venv/bin/python scripts/metrics_page.py
	@.venv/bin/ruff check --fix --quiet . || true
	@.venv/bin/ruff format --quiet .

bench: ## measure Quiver and its peers in half an hour, write benchmarks/results/
	@scripts/setup bench
	@.venv/bin/python -m benchmarks

bench-quick: ## the same in three minutes, less exact
	@scripts/setup bench
	@.venv/bin/python -m benchmarks --quick

bench-all: ## the same with Spark and start-up after a million events, an hour
	@scripts/setup bench
	@.venv/bin/python -m benchmarks --long

bench-peers: ## install the peers: Debian packages, and Kafka where Maven and a JDK are installed
	@benchmarks/install-peers

soak: ## load and churn on files and on PostgreSQL for an hour; SECONDS=, DIRECTORY=soak (docs/benchmarks.md)
	@scripts/setup bench
	@scripts/system-packages postgres
	@.venv/bin/python -m benchmarks.soak --seconds $(or $(SECONDS),3600) --directory $(or $(DIRECTORY),soak) $(ARGS)

chaos: setup ## the long versions of the fault tests
	@scripts/system-packages
	@QUIVER_LONG=1 .venv/bin/pytest -m long --timeout 3600

chaos-cluster: setup ## faults of nodes, links, disks and etcd in a cluster for 15 minutes; SECONDS=, SEED=, FAULTS= (docs/cluster.md)
	@scripts/system-packages
	@QUIVER_CLUSTER_SECONDS=$(or $(SECONDS),900) $(if $(SEED),QUIVER_CLUSTER_SEED=$(SEED)) $(if $(FAULTS),QUIVER_CLUSTER_FAULTS=$(FAULTS)) .venv/bin/pytest tests/blackbox/cluster/chaos/test_cluster_chaos.py -rP

simulate: setup ## 1,000 seeds of the simulator, until one fails; SEEDS=, FIRST=, SECONDS= (docs/simulation.md)
	@.venv/bin/python -m quiver.testing.simulation --first $(or $(FIRST),1) --seeds $(or $(SEEDS),1000) --seconds $(or $(SECONDS),60) $(ARGS)
	@.venv/bin/python -m quiver.testing.replication --first $(or $(FIRST),1) --seeds $(or $(SEEDS),1000) --seconds $(or $(SECONDS),60)

simulate-cluster: setup ## 300 seeds of simulated clusters, until one fails; SEEDS=, FIRST=, SECONDS= (docs/simulation.md)
	@.venv/bin/python -m quiver.testing.simulation --cluster --first $(or $(FIRST),1) --seeds $(or $(SEEDS),300) --seconds $(or $(SECONDS),60) $(ARGS)

simulate-long: setup ## 10,000 seeds of simulated clusters; it takes a day
	@.venv/bin/python -m quiver.testing.simulation --cluster --first $(or $(FIRST),1) --seeds $(or $(SEEDS),10000) --seconds $(or $(SECONDS),60) --keep-going $(ARGS)

spark: ## set up PySpark and, when it is missing, Java
	@scripts/setup spark
	@scripts/system-packages java

example-stream: spark ## a Spark stream from topic to topic; ARGS=--help (docs/spark-examples.md)
	@.venv/bin/python examples/revenue_per_minute.py $(ARGS)

example-pipeline: spark ## a declarative Spark pipeline over topics (docs/spark-examples.md)
	@test -d examples/state/orders-pipeline || .venv/bin/quiver pipeline init examples/state/orders-pipeline
	@.venv/bin/quiver pipeline run examples/state/orders-pipeline $(ARGS)

setup:
	@scripts/setup dev

lock: setup ## resolve the versions again
	@.venv/bin/uv lock --quiet --upgrade
	@scripts/export-locks

clean: ## remove the environment and caches
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
