# The project's own commands. Everything they need is installed below this folder; nothing is installed globally.
NODE := node_modules/.bin/node

.DEFAULT_GOAL := help
.PHONY: help setup test test-cluster demo demo-stop bench dist docs clean

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: node_modules/.package-lock.json ## install the locked packages (and Node 24 with them)

node_modules/.package-lock.json: package-lock.json package.json
	@sh bin/check-tools
	npm ci --no-audit --no-fund
	@touch $@

test: setup ## run every test; the last line is "N passed, N failed"
	@$(NODE) test/run.ts

test-cluster: setup ## build Kubernetes once (5 minutes), and run the tests that need it
	@$(NODE) test/kubernetes/build.ts
	@SVC_TEST_NODES=1 $(NODE) test/run.ts test/kubernetes
	@SVC_TEST_NODES=images $(NODE) test/run.ts kubernetes/nodes-images
	@SVC_TEST_NODES=conformance $(NODE) test/run.ts kubernetes/nodes-conformance
	@SVC_TEST_NODES=network $(NODE) test/run.ts kubernetes/nodes-network
	@$(NODE) test/run.ts --pods

demo: setup ## start a platform, deploy examples/text-analysis, call every endpoint
	@$(NODE) examples/demo.ts start

demo-stop: setup ## stop the demo's platform and remove its data
	@$(NODE) examples/demo.ts stop

bench: setup ## list the benchmarks (run one with: npm run bench -- NAME)
	@$(NODE) bench/main.ts

dist: setup ## make what is handed out (make dist PLATFORM=linux-arm64 for another machine)
	@$(NODE) packaging/main.ts $(PLATFORM)

docs: docs/node_modules/.package-lock.json ## build the documentation's site into docs/.vitepress/dist
	@cd docs && PATH="$(CURDIR)/node_modules/.bin:$$PATH" npm run --silent build

docs/node_modules/.package-lock.json: docs/package-lock.json docs/package.json
	cd docs && npm ci --prefer-offline --ignore-scripts --no-audit --no-fund
	@touch $@

clean:
	rm -rf node_modules docs/node_modules docs/.vitepress/dist dist .demo
