# Everything that a user or a contributor types. `make help` lists it. Nothing is installed into the tree: programs,
# images and the Python environment live in $PDSERVING_CACHE (default ~/.cache/pdserving), keyed by their versions.
.DEFAULT_GOAL := help
SHELL := /bin/bash
SUITE ?= main
CLUSTER ?= self
export CLUSTER

VENV = $(eval VENV := $$(shell scripts/venv))$(VENV)
PYTHON_RUN = PYTHONPATH=operator:. PYTHONDONTWRITEBYTECODE=1 $(VENV)/bin/python
PYTEST = PYTHONDONTWRITEBYTECODE=1 $(VENV)/bin/python -m pytest -p no:cacheprovider

.PHONY: help
help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'
	@echo "  CLUSTER=self|kind|context selects the cluster of demo and e2e; SUITE=main|… the e2e suite"

##@ See it work
.PHONY: demo demo-down
demo: ## start a cluster, install the operator, serve a model by P/D, ask it a question
	@$(PYTHON_RUN) -m e2e.demo up
demo-down: ## remove every process, namespace and mount that the demo made
	@$(PYTHON_RUN) -m e2e.demo down

##@ Develop
.PHONY: check format generate
check: ## lint, types, import contracts, generated files: seconds
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@PYTHONPATH=operator $(VENV)/bin/lint-imports --no-cache
	@$(VENV)/bin/codespell operator tests e2e bench charts docs examples images scripts *.md --skip '*.json,*.sum,*.mod,*.lock' --ignore-words-list "ser,te,crate,nd,aks,allready"
	@$(PYTHON_RUN) -m scripts.generate --check
format: ## format the code and sort its imports
	@$(VENV)/bin/ruff check --fix-only .
	@$(VENV)/bin/ruff format .
generate: ## write the CRD and its copy in the chart anew
	@$(PYTHON_RUN) -m scripts.generate

##@ Test
.PHONY: test test-unit test-api test-cluster e2e
test: check test-unit test-api test-cluster ## every tier; with CI=true a skipped tier fails
test-unit: ## pure code and the proxy on loopback: seconds
	@$(PYTEST) tests -m "not api and not cluster"
test-api: ## the operator against a real etcd and kube-apiserver
	@$(PYTHON_RUN) -m e2e.cluster build --only binaries
	@$(PYTEST) tests -m api
test-cluster: ## the main suite: real engines in a real cluster
	@$(PYTEST) e2e/main
e2e: ## real engines in a real cluster: SUITE=main
	@$(PYTEST) e2e/$(SUITE)

##@ The self-contained cluster
.PHONY: cluster-up cluster-down cluster-shell cluster-status images
cluster-up: ## start Kubernetes on this machine, in namespaces of its own
	@$(PYTHON_RUN) -m e2e.cluster up
cluster-down: ## end it and leave nothing behind
	@$(PYTHON_RUN) -m e2e.cluster down
cluster-shell: ## a shell with kubectl and helm ready
	@$(PYTHON_RUN) -m e2e.cluster shell
cluster-status: ## is it up, and where
	@$(PYTHON_RUN) -m e2e.cluster status
images: ## build the images without a registry
	@$(PYTHON_RUN) -m e2e.cluster build

##@ Measure
.PHONY: bench bench-proxy
bench: ## operator: reconcile cost, API calls, memory
	@$(PYTHON_RUN) -m bench.operator
bench-proxy: ## proxy against vllm-router, sglang-router and nginx in one run
	@$(PYTHON_RUN) -m bench.proxy
