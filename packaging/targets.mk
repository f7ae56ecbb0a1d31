# Packages and releases: what the Makefile includes. BIN_DIR= names a folder with programs that were built elsewhere,
# PROFILE= another profile of Cargo; all is written into target/dist.

PROFILE ?= release
CPU := $(shell uname -m)
GNU := $(CPU)-unknown-linux-gnu
STATIC := $(CPU)-unknown-linux-musl
PYTHON_OF_PACKAGES ?= python3 -B

build = $(if $(BIN_DIR),true,$(PYTHON_OF_PACKAGES) packaging/build.py $(if $(1),--package $(1)) --target $(2) --profile $(PROFILE))
pack = $(PYTHON_OF_PACKAGES) packaging/$(1).py $(if $(BIN_DIR),--bin-dir $(BIN_DIR))

.PHONY: release release-all deb image image-kubernetes wheels npm crates brew aur sbom sums packages lab-bundle test-packages release-check reproducible

release: ## pilotlight, optimized and stripped, in target/dist/bin/TARGET; debug information in target/dist/debug/TARGET
	@$(if $(BIN_DIR),true,$(PYTHON_OF_PACKAGES) packaging/build.py --program pilotlight --target $(GNU) --profile $(PROFILE))

release-all: ## the same of every program: pilotlight-redis, pilotlight-lab and pilotlight-kubernetes as well
	@$(call build,,$(GNU))

deb: ## the Debian package; PROFILE=gate or BIN_DIR=folder for programs that are built faster
	@$(call build,deb,$(GNU))
	@$(call pack,deb)

image: ## the container image, from nothing: an OCI archive of a static program
	@$(call build,image,$(STATIC))
	@$(call pack,image) $(if $(filter release,$(PROFILE)),,--any-size)

image-kubernetes: ## the image for clusters, which has `pilotlight kubernetes`
	@$(call build,image-kubernetes,$(STATIC))
	@$(call pack,image) --kubernetes $(if $(filter release,$(PROFILE)),,--any-size)

wheels: ## the Python wheel: the programs, the SDK and its compiled core
	@$(call build,wheel,$(STATIC))
	@$(if $(BIN_DIR),true,$(PYTHON_OF_PACKAGES) packaging/core.py --target $(GNU))
	@$(if $(BIN_DIR),true,$(PYTHON_OF_PACKAGES) packaging/core.py --target $(STATIC))
	@$(call pack,wheel)

npm: ## the packages of npm: the programs and the SDK
	@$(call build,npm,$(STATIC))
	@$(call pack,npm)

crates: ## the crates, packed and compiled as their users get them; VERIFY=no leaves the second out
	@$(PYTHON_OF_PACKAGES) packaging/crates.py $(if $(filter no,$(VERIFY)),--no-verify)

brew: ## the source archive and the Homebrew formula
	@$(PYTHON_OF_PACKAGES) packaging/recipes.py pilotlight.rb

aur: ## the source archive, PKGBUILD and .SRCINFO
	@$(PYTHON_OF_PACKAGES) packaging/recipes.py PKGBUILD .SRCINFO

sbom: ## what is compiled in: CycloneDX, one file for each program
	@$(PYTHON_OF_PACKAGES) packaging/sbom.py

sums: ## SHA256SUMS of what is in target/dist
	@cd target/dist && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS && cat SHA256SUMS

packages: release-check deb image image-kubernetes wheels npm crates brew aur sbom sums ## everything that a release consists of

lab-bundle: ## the lab as a folder for a machine without Rust: programs, peers with what is built of them, SDKs; BIN_DIR=folder
	@$(if $(BIN_DIR),true,cargo build --quiet --release -p pilotlight -p pilotlight-lab -p users)
	@$(PYTHON_OF_PACKAGES) packaging/lab_bundle.py --bin-dir $(or $(BIN_DIR),target/release)

test-packages: ## install each package in a clean place and use it; builds cheap programs unless BIN_DIR= and STATIC_BIN_DIR= name some
	@scripts/setup.sh packages
	@$(if $(BIN_DIR),true,$(PYTHON_OF_PACKAGES) packaging/build.py --target $(GNU) --profile dev)
	@$(if $(STATIC_BIN_DIR),true,$(PYTHON_OF_PACKAGES) packaging/build.py --target $(STATIC) --profile dev)
	@$(PYTHON_OF_PACKAGES) packaging/core.py
	@cd tests/packages && ../../target/venv/bin/python -B -m pytest --quiet $(TESTS)

release-check: ## refuse a release whose parts disagree about its version
	@$(PYTHON_OF_PACKAGES) packaging/check.py

reproducible: ## build and pack twice in different folders, and compare every byte; PROFILE=gate is faster
	@packaging/reproducible.sh $(PROFILE)
