# Everything that is done with this repository. `make` alone prints what there is.
#
# Needed beforehand: Go, Node.js with npm, make, git and, once, the network. What else the tests need (PostgreSQL,
# PgBouncer, Chromium) `make setup` installs with apt-get when it runs as root, and names otherwise. Developer tools are
# pinned in tools/go.mod and built from there into bin/tools.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 50000x
# How long the tests of one package may take before they count as hung. The slowest take two minutes on two cores.
TIMEOUT ?= 40m
KILLS ?= 10
SOAK ?= 2m
CHAOS ?= 2m
SEED ?= 0
MONTH ?= 1000000
BENCH ?= .
ROWS ?= .
COUNT ?= 1
# Packages that `unit`, `race`, `microbench` and `cover` look at. These tests have targets of their own: they drive the
# binary from outside, so the go command cannot know when a cached result is out of date.
PKG ?= $(shell go list ./... | grep -v -e /internal/crash$$ -e /internal/rolling$$ -e /internal/chaos$$)

export CGO_ENABLED ?= 0

##@ Run

.PHONY: help
help: ## Print this
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/picomq, one static binary
	go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/picomq ./cmd/picomq

.PHONY: run
run: build ## Build and run a server on its defaults (data in ./picomq-data)
	bin/picomq serve

.PHONY: docker
docker: ## Build the container image picomq:VERSION
	docker build --build-arg VERSION=$(VERSION) -t picomq:$(VERSION) .

##@ Test

.PHONY: test
test: setup unit conformance crash rolling soak chaos ## Run every test: units, both databases, protocol suite, real clients, kill -9, restarts, soak, chaos
	@echo
	@echo "make test: all passed"
	@echo "  - Go tests of $$(go list ./... | wc -l) packages, the SQL log on SQLite and on PostgreSQL"
	@echo "  - the official Durable Streams suite but for subscriptions, the TypeScript client, a browser, HTTP/1.1, HTTP/2 and curl through restarts"
	@echo "  - $(KILLS) kills of the server under load, nothing acknowledged lost"
	@echo "  - three nodes restarted one after the other under load, without a request that failed"
	@echo "  - $(SOAK) of nodes that crash while everything else fails now and then, nothing lost and nothing left over"
	@echo "  - $(CHAOS) of three nodes that are killed, frozen and cut off, while bucket and database go away, every answer explained"

.PHONY: setup
setup: conformance/node_modules/.package-lock.json ## Install what the tests need and is missing
	scripts/install-missing postgresql pgbouncer chromium curl

.PHONY: unit
unit: ## Run the Go tests (PKG=./some/package) beside a throw-away PostgreSQL
	@scripts/with-postgres go test -timeout $(TIMEOUT) $(PKG)

.PHONY: race
race: ## Run the Go tests with the race detector
	@CGO_ENABLED=1 scripts/with-postgres go test -race -timeout $(TIMEOUT) $(PKG)

.PHONY: conformance
conformance: setup build ## Run the official suite against one node and three, and the real clients
	cd conformance && ../scripts/with-postgres npm test

.PHONY: crash
crash: build ## Kill the server KILLS times under load and check every acknowledged record
	cd internal/crash && ../../scripts/with-postgres go test -count=1 -timeout $(TIMEOUT) -kills $(KILLS)

.PHONY: rolling
rolling: ## Restart every node of a cluster under load, behind balancers, and look for requests that failed
	cd internal/rolling && ../../scripts/with-postgres go test -count=1 -timeout $(TIMEOUT)

.PHONY: soak
soak: ## Let nodes live under faults and crashes for SOAK, and check every read and what is left at the end
	cd internal/soak && go test -count=1 -timeout 0 -run TestNothingIsLost -soak $(SOAK)

.PHONY: chaos
chaos: ## Kill, freeze and cut off three nodes, their bucket and their PostgreSQL for CHAOS, and check every answer (SEED=n repeats the faults)
	scripts/install-missing postgresql
	cd internal/chaos && go test -count=1 -timeout 0 -chaos $(CHAOS) -seed $(SEED)

.PHONY: month
month: ## Live through a simulated month with MONTH streams
	cd internal/soak && go test -count=1 -timeout 0 -run TestAMonth -month $(MONTH) -days 30

.PHONY: fuzz
fuzz: ## Run every fuzz target FUZZTIME (a count; see scripts/fuzz about durations)
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## Measure a whole server beside bare baselines and print the table (ROWS=regexp for some, named by: go run ./internal/perf -list)
	go run ./internal/perf -rows '$(ROWS)'

.PHONY: microbench
microbench: ## Run the Go benchmarks matching BENCH, COUNT times (compare two runs with bin/tools/benchstat)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

.PHONY: cover
cover: ## Measure the coverage of the Go tests into coverage.html
	scripts/with-postgres go test -timeout $(TIMEOUT) -coverpkg=./... -coverprofile=coverage.out $(PKG)
	go tool cover -html=coverage.out -o coverage.html
	go tool cover -func=coverage.out | tail -n 1

##@ Code

.PHONY: fmt
fmt: bin/tools/golangci-lint ## Format the Go code
	bin/tools/golangci-lint fmt

.PHONY: lint
lint: bin/tools/golangci-lint ## Lint the Go code
	bin/tools/golangci-lint run

.PHONY: tidy
tidy: ## Tidy both modules
	go mod tidy
	cd tools && go mod tidy

.PHONY: vuln
vuln: bin/tools/govulncheck ## Look for known vulnerabilities (asks vuln.go.dev)
	bin/tools/govulncheck ./...

.PHONY: check
check: check-tidy vet test check-fmt lint race fuzz ## Run everything that CI runs

.PHONY: check-tidy
check-tidy:
	go mod tidy -diff
	cd tools && go mod tidy -diff

.PHONY: check-fmt
check-fmt: bin/tools/golangci-lint
	bin/tools/golangci-lint fmt --diff

.PHONY: vet
vet: ## Compile everything, tests included, and vet it
	go vet ./...
	go vet -tags failpoint ./cmd/...
	go vet -tags nextlevel ./commands ./statemachine ./cmd/...

.PHONY: tools
tools: bin/tools/golangci-lint bin/tools/gofumpt bin/tools/govulncheck bin/tools/benchstat ## Build the developer tools (minutes, once)

bin/tools/golangci-lint: TOOL := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/tools/gofumpt: TOOL := mvdan.cc/gofumpt
bin/tools/govulncheck: TOOL := golang.org/x/vuln/cmd/govulncheck
bin/tools/benchstat: TOOL := golang.org/x/perf/cmd/benchstat
bin/tools/%: tools/go.mod tools/go.sum
	@echo "building $*"
	@go -C tools build -trimpath -ldflags '-s -w' -o ../$@ $(TOOL)
	@touch $@

conformance/node_modules/.package-lock.json: conformance/package.json conformance/package-lock.json
	cd conformance && npm ci
	@touch $@
