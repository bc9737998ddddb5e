# kvwatch: what can be made. `make help` lists it.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help

# A build from a tarball, without git, cannot tell.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GO      ?= go
# The tools are pinned and built by Go itself, from a module file of their own.
TOOL    := $(GO) tool -modfile=deploy/tools/go.mod
TESTS   := $(TOOL) gotestsum --format pkgname --format-hide-empty-pkg --format-icons text --hide-summary skipped --post-run-command deploy/ci/verdict
FUZZTIME ?= 30s
step     = @printf '\n== %s\n' "$(1)"

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## the daemon on a simulated fleet with an incident, nothing to set up
	$(GO) run ./cmd/kvwatch demo

.PHONY: build
build: ## static binaries in bin/; TAGS=kubernetes has Kubernetes discovery too
	deploy/ci/build '$(VERSION)' bin/ ./cmd/...
	@ls -l bin/

.PHONY: test
test: setup vet lint test-race ## everything that has to hold before a change goes in (sets up what it needs)

.PHONY: setup
setup: ## what the tests need beside Go (gcc, chromium), by apt-get and only where missing
	$(call step,setup)
	@deploy/ci/setup

.PHONY: vet
vet:
	$(call step,go vet)
	$(GO) vet -tags slow ./...
	$(GO) vet -tags slow,kubernetes ./collector

.PHONY: lint
lint: ## golangci-lint with .golangci.yml; gofumpt and goimports are part of it
	$(call step,golangci-lint)
	$(TOOL) golangci-lint config verify
	$(TOOL) golangci-lint run ./...
	$(TOOL) golangci-lint run --build-tags slow,kubernetes ./collector

.PHONY: fmt
fmt: ## gofumpt and goimports over everything
	$(TOOL) golangci-lint fmt ./...

.PHONY: test-race
test-race: ## the tests alone, with the race detector
	$(call step,go test -race)
	$(TESTS) -- -race -count=1 -timeout 20m ./...
	$(call step,go test -tags kubernetes)
	@# The race detector would compile the Kubernetes client a second time: make slow does.
	$(TESTS) -- -count=1 -timeout 20m -tags kubernetes -run Kubernetes ./collector

.PHONY: slow
slow: setup ## everything, what takes long too (build tag slow), as the image is built, three times in random order
	$(call step,go test -race with the tags slow and kubernetes)
	$(TESTS) -- -race -tags slow,kubernetes -count=3 -shuffle=on -timeout 90m ./...

.PHONY: bench
bench: ## all benchmarks, with allocations
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-spendlogs
bench-spendlogs: setup ## reading a table of 10 million calls: time, memory, the server's CPU (needs 10 GB and a quarter of an hour)
	$(call step,spend logs)
	KVWATCH_BENCH_SPENDLOGS_ROWS=$${KVWATCH_BENCH_SPENDLOGS_ROWS:-10000000} $(GO) test -v -run '^$$' -bench SpendLogs -benchtime 5x -timeout 60m ./collector

.PHONY: bench-pair
bench-pair: setup ## kvwatch and a Prometheus server on the same 1 000 simulated engines: CPU, memory and disk of both (17 minutes)
	@deploy/bench/pair

.PHONY: bench-alerts
bench-alerts: ## how long 500 alerts take from the scrape to Slack, and a storm of 5 000 (2 minutes)
	$(GO) test -run '^$$' -bench ScrapeToSlack -benchtime 1x ./cmd/kvwatch
	$(GO) test -run '^$$' -bench Storm -benchtime 5x ./alerting

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (30s)
	@deploy/ci/fuzz $(FUZZTIME)

.PHONY: vuln
vuln: ## govulncheck, where the vulnerability database can be reached
	@deploy/ci/vuln

# Raise SCORE_SEEDS for a surer table; it starts at the first seed of the table.
# With SCORE_KEEP=folder a run that was interrupted goes on there.
SCORE_SEEDS ?= 3
SCORE_KEEP  ?=
.PHONY: score
score: ## the detectors over the whole corpus of simulated runs, into rules/SCORES.md (half an hour of CPU)
	$(GO) build -o bin/ ./cmd/fleetsim
	bin/fleetsim score --seeds $(SCORE_SEEDS) --first-seed 901 --keep '$(SCORE_KEEP)' > bin/SCORES.md
	bin/fleetsim score --set logs --seeds $(SCORE_SEEDS) --first-seed 901 --keep '$(SCORE_KEEP)' >> bin/SCORES.md
	mv bin/SCORES.md rules/SCORES.md

.PHONY: drift
drift: ## the verdicts on sizing plans over simulated histories, into rules/DRIFT.md (minutes of CPU)
	$(GO) build -o bin/ ./cmd/fleetsim
	bin/fleetsim drift --seeds 5 --first-seed 1101 > bin/DRIFT.md
	mv bin/DRIFT.md rules/DRIFT.md

.PHONY: dashboards
dashboards: ## writes dashboards/grafana/*.json again from the Go code
	$(GO) generate ./dashboards/...

PREVIEW ?= bin/preview

.PHONY: preview
preview: ## messages and charts as they look on a phone, into PREVIEW (bin/preview), and pictures of them where chromium is
	@mkdir -p $(PREVIEW)
	$(GO) test ./alerting ./alerting/chart -run 'TestWording|TestPNG' -count=1 -args -preview=$(abspath $(PREVIEW))
	cd $(PREVIEW) && for page in *.html; do chromium --headless --no-sandbox --hide-scrollbars --window-size=420,2600 --screenshot=$${page%.html}.png $$page 2>/dev/null || break; done

.PHONY: docs
docs: ## writes deploy/docs/metrics.md again from the tables of series and alerts
	$(GO) test ./cmd/kvwatch -run TestMetricsDocument -update

.PHONY: image
image: ## a container image from deploy/docker/Dockerfile, by buildah, podman or docker
	@deploy/docker/build '$(VERSION)'

.PHONY: clean
clean: ## removes bin/
	rm -rf bin
