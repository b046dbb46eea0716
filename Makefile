# make          build bin/varve
# make run      build and run it
# make test     install what is missing and run every test
SHELL := /bin/bash
GO ?= go
VENV := .venv
BIN := bin/varve

.PHONY: build run test prerequisites lint unit race clients clients-rust lab0 lab0-full lab2 lab2-full fuzz soak soak-server bench bench-peers bench-deletes bench-limits tools venv clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/varve

run: build
	./$(BIN) serve

test: prerequisites lint race build clients lab0 lab2

prerequisites:
	tools/prerequisites.sh

tools:
	@cd tools && $(GO) build -o ../bin/tools/ honnef.co/go/tools/cmd/staticcheck mvdan.cc/gofumpt

lint: tools
	@test -z "$$(bin/tools/gofumpt -l bench cmd examples internal move test | tee /dev/stderr)"
	$(GO) vet ./...
	bin/tools/staticcheck ./...

unit:
	$(GO) test ./...

race:
	$(GO) test -race -timeout 30m ./...

$(VENV)/ok: test/clients/python/requirements.txt
	tools/prerequisites.sh
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

venv: $(VENV)/ok

clients: build venv
	test/clients/run.sh $(BIN) $(VENV)

# ScyllaDB's Rust driver; needs cargo, and minutes to build, so it is no part of make test.
clients-rust: build
	test/clients/run.sh $(BIN) . rust

# The tombstone lab at reduced size; the whole size is make lab0-full.
lab0: build venv
	$(VENV)/bin/python examples/labs/tombstones/run.py --varve $(BIN) --cqlsh $(VENV)/bin/cqlsh --big 60000 --small 100

# The move lab at reduced size, into Varve; the whole size, both ways, is make lab2-full.
lab2: build
	tools/prerequisites.sh
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/chat ./examples/chat
	python3 examples/labs/move/run.py --varve $(BIN) --chat bin/chat --rows 20000 --rooms 200 --quick --to varve

lab2-full: build
	tools/prerequisites.sh
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/chat ./examples/chat
	python3 examples/labs/move/run.py --varve $(BIN) --chat bin/chat

lab0-full: build venv
	$(VENV)/bin/python examples/labs/tombstones/run.py --varve $(BIN) --cqlsh $(VENV)/bin/cqlsh

# Each fuzz target for a while: make fuzz FUZZTIME=1m
FUZZTIME ?= 20s
fuzz:
	@set -e; for p in $$($(GO) list ./internal/...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz || true); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p; done; done

# The model, crash and I/O error tests for an hour: make soak VARVE_SECONDS=600
soak:
	VARVE_SECONDS=$${VARVE_SECONDS:-3600} $(GO) test -race -count=1 -timeout 24h ./internal/store/...

# A real server under everything at once, killed at random, for an hour: make soak-server SECONDS=600
# More flags of bench/soak go into SOAK, as SOAK="--rate 5000 --budget 1024".
soak-server: build
	$(GO) run ./bench/soak --varve $(BIN) --seconds $(or $(SECONDS),3600) $(SOAK)

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./internal/...

# Beside a real Cassandra: make bench-peers CASSANDRA=path/to/cassandra.sh
bench-peers: build
	@test -n "$(CASSANDRA)" || { echo "give CASSANDRA=<script that starts a Cassandra>, see bench/peers.py" >&2; exit 2; }
	python3 bench/peers.py --varve $(BIN) --cassandra $(CASSANDRA) --out docs/performance.md

# What deletes cost the reads after them, and whether their space comes back, in 15 to 20 minutes; about two with
# FLAGS="--rows 33334 --samples 500". Beside a real Cassandra too: CASSANDRA=path/to/cassandra.sh
bench-deletes: build
	$(GO) run ./bench/deletes --varve $(BIN) $(if $(CASSANDRA),--cassandra $(CASSANDRA)) $(FLAGS)

# How far the server is from a bare echo server and from the engine alone; pages with compactions running and paused.
bench-limits: build
	$(GO) run ./bench/limits --varve $(BIN) $(FLAGS)

clean:
	rm -rf bin $(VENV) test/clients/node/node_modules test/clients/java/target
