# SPDX-License-Identifier: Apache-2.0
# A thin front of Meson and ninja: 'make' builds, 'make help' lists the rest.
BUILD ?= build
BUILD_ASAN ?= build-asan
BUILD_FUZZ ?= build-fuzz
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
PYTHON := /usr/bin/python3
KERNELS ?= bookworm noble trixie
MACHINES_FLAGS ?=

all: $(BUILD)/build.ninja ## Build everything, optimised and hardened, into build/
	ninja -C $(BUILD)

$(BUILD)/build.ninja: | deps-build
	meson setup $(BUILD) --buildtype=release --prefix=$(PREFIX)

# No optimisation and only lines for the debugger: half the time to compile, while the tests take
# hardly longer. What a compiler warns of only when it optimises is left to the release build. gold,
# where there is one, links the hundred programs in half the time.
$(BUILD_ASAN)/build.ninja: | deps-test
	meson setup $(BUILD_ASAN) -Doptimization=0 -Ddebug=false -Dc_args='-g1 -Wno-format-truncation' \
		-Dc_link_args="$$(command -v ld.gold >/dev/null && echo -fuse-ld=gold)" \
		-Db_sanitize=address,undefined -Db_lundef=false -Dwerror=true

asan: $(BUILD_ASAN)/build.ninja ## Build with AddressSanitizer and UBSan into build-asan/
	ninja -C $(BUILD_ASAN)

deps: ## Install the packages that building and running need
	@tools/deps run

deps-build:
	@tools/deps build

deps-test: ## Install the packages that testing needs, too
	@tools/deps test

# The rights are checked first: installing and building takes minutes.
run: ## Start the daemon, make the base template when missing, show a sandbox at work
	@tools/demo --check
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory all
	@CAY_BUILD=$(BUILD) tools/demo

stop: ## Stop what 'make run' started, sandboxes included
	$(BUILD)/src/cli/cay down --yes

test: deps-test ## All checks and tests; ends with one line of sums
	@CAY_BUILD=$(BUILD) CAY_BUILD_ASAN=$(BUILD_ASAN) $(PYTHON) tools/run-tests

test-docker: all ## cay inside a Docker container; skips by name where dockerd cannot run
	@CAY_BUILD=$(BUILD) $(PYTHON) tools/run-tests docker

test-machines: deps-test all ## Boot the kernels of distributions in QEMU and test there (KERNELS="bookworm noble trixie")
	@CAY_BUILD=$(BUILD) $(PYTHON) tests/machines/run $(MACHINES_FLAGS) $(KERNELS)

test-unit: deps-test all ## Unit and component tests and fuzz corpora on the release build
	meson test -C $(BUILD) --print-errorlogs

test-asan: asan ## The same under the sanitizers
	meson test -C $(BUILD_ASAN) --print-errorlogs

docs: ## Build the documentation as a static site in out/docs
	@tools/docs/site

docs-reference: all ## Write the generated pages of docs/reference again
	@CAY_BUILD=$(BUILD) tools/docs/reference

lint: deps-test ## Layers, sizes, banned functions, layout
	@tools/lint

format: ## Lay out all C files with clang-format
	clang-format -i $$(git ls-files '*.c' '*.h')

lint-deep: deps-test all ## clang-tidy and cppcheck over everything
	@CAY_BUILD=$(BUILD) tools/lint-deep

bench: deps-test all ## Measure against the bare limit and against what else a user could pick
	@if [ -x bench/run ]; then CAY_BUILD=$(BUILD) bench/run; else echo "bench/run is not there yet" >&2; exit 1; fi

fuzz: deps-test ## Run every fuzz target for FUZZ_SECONDS each
	@BUILD_FUZZ=$(BUILD_FUZZ) FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

install: all ## Install under DESTDIR and PREFIX
	meson configure $(BUILD) -Dprefix=$(PREFIX)
	DESTDIR="$(DESTDIR)" meson install -C $(BUILD)

clean: ## Remove the build directories
	rm -rf $(BUILD) $(BUILD_ASAN) $(BUILD_FUZZ)

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

.PHONY: all asan format deps deps-build deps-test run stop test test-docker test-machines test-unit test-asan docs docs-reference lint lint-deep bench fuzz install clean help
