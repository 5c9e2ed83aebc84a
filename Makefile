# The front door. `make demo` and `make test` are the two commands to know; both install what is missing.
#
#   make           build the libraries and the command, in release mode, into build/
#   make libs      everything that CMake builds: the libraries, the tests;   make tool   the command;   make workloads   for bench
#   make demo      a real program under the system allocator and under Freehold, side by side
#   make test      lint, then every test
#   make check     the release build's tests alone; nothing is installed for them
#   make bench     the benchmark suite, quick form (BENCH_ARGS=... for more);   make bench-memory   the part about memory
#   make figures   the figures that the documents cite, measured again (ONLY="hotpath drift" for some of them)
#   make pictures  the pictures of README.md, drawn again
#   make soak      the long forms of the stress tests, and larger programs
#   make bare      tried on bare Debian 12 and 13 (root, debootstrap, a mirror); SUITES=trixie for one of them
#   make lint      formatting and static analysis only;   make format   mend the formatting
#   make install   into PREFIX (default /usr/local), DESTDIR is honoured;   make uninstall   takes it away again
#   make release   everything of a release into dist/, from the tag TAG=v1.2.3
#   make deps      install what is missing, and nothing else;   make clean   remove what was built;   make help   this list

# Said at once and in words: without these, each line below fails in a way of its own.
ifneq ($(shell uname -s),Linux)
$(error Freehold runs on Linux; on $(shell uname -s) it can be built and tried in a Linux container or virtual machine)
endif
ifeq ($(shell command -v bash),)
$(error bash is missing, which the scripts are written for; on Alpine 'apk add bash' installs it)
endif
SHELL := $(shell command -v bash)
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
DEPS := BUILD='$(BUILD)' scripts/install-deps.sh
BENCH_ARGS ?= --quick
MEMORY_WORKLOADS := spike-64B-512m sparse-128m sparse-1g drift-small phases-512m-100ms idle-1 idle-256 idle-1000 \
    hello-memory retire-small cold-start replace-16-255 '!cold-start-' '!replace-16-255-'

# A tool chain that the install step put in place may not be on this shell's path yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO_TARGET_DIR := $(abspath $(BUILD))/cargo
CARGO := cargo
# The last file of the tree that `make` lays out for `make install`.
STAGED := $(BUILD)/install/share/freehold/installed
MANIFEST := --manifest-path tools/Cargo.toml --locked

.PHONY: help bare check all libraries workloads libs tool demo test bench bench-memory figures pictures soak lint format clean install uninstall deps release

all: libraries tool
	@scripts/install.sh stage $(BUILD)

# Written last by a configure step that went well, so nothing half done is taken for it.
$(BUILD)/build.ninja:
	@$(DEPS) --check build
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX)

# What is installed. Tests and workloads, several hundred files, are built by those who run them.
libraries: $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS) --target freehold freehold_static embed embed_static freehold_record freehold_replayer

# What `make bench` needs of it; the peers are built by the command itself, when they are measured.
workloads: libraries
	cmake --build $(BUILD) -j $(JOBS) --target workloads

# Configured again, because what was missing then, and left tests out, may be here now.
libs: $(BUILD)/build.ninja
	cmake $(BUILD) --log-level=WARNING
	cmake --build $(BUILD) -j $(JOBS)

tool:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: run 'make deps' first" >&2; exit 1; }
	$(CARGO) build --release -j $(JOBS) $(MANIFEST) -p freehold
	install -C -D -m 755 $(CARGO_TARGET_DIR)/release/freehold $(BUILD)/freehold

help:
	@sed -n 's/^#   //p' Makefile

check: libs tool
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -LE 'release|soak' -j $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure -L beside -LE soak -j $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure -L release -LE 'soak|beside'

deps:
	$(DEPS) build demo test bench

# What the build says is in a file, and a bar is shown instead. DEMO_ARGS=python runs another scene.
demo:
	@$(DEPS) build demo
	+@scripts/quietly.sh $(BUILD)/demo.log 'Building Freehold' $(MAKE) --no-print-directory all
	@$(BUILD)/freehold demo $(DEMO_ARGS)

test:
	$(DEPS) build test
	scripts/test.sh $(BUILD)

bench:
	$(DEPS) build bench
	$(MAKE) workloads tool
	@# Exit code 1 says that some allocator failed some workload; the table names both, and it is no error of ours.
	$(BUILD)/freehold bench $(BENCH_ARGS) || [ $$? -eq 1 ]

# The table and the picture of docs/memory.md.
bench-memory:
	$(DEPS) build bench
	$(MAKE) workloads tool
	$(BUILD)/freehold bench $(MEMORY_WORKLOADS) --full --repeats 3 --no-real --out $(BUILD)/bench-memory || [ $$? -eq 1 ]
	$(BUILD)/freehold bench report "$$(ls -t $(BUILD)/bench-memory/*.json | head -1)" --memory \
	    --picture $(BUILD)/bench-memory/memory.svg --of spike,phases

# The two commands on Debian systems that have nothing else; by hand, as root.
bare:
	scripts/bare.sh $(BUILD) $(SUITES)

# Runs the commands of docs/figures.toml. Those of the benchmark suite run only when they are named: ONLY=suite-cpu.
figures:
	$(DEPS) build test bench
	$(MAKE) libs tool
	scripts/figures.py $(ONLY)

# The pictures of README.md, of programs that run now.
pictures: all
	scripts/pictures.py $(BUILD)

soak:
	$(DEPS) build test soak
	$(MAKE) libs tool
	scripts/soak.sh $(BUILD)

lint: $(BUILD)/build.ninja
	scripts/lint.sh $(BUILD)

format:
	git ls-files -z -- '*.c' '*.h' '*.cc' '*.hpp' | xargs -0r clang-format -i
	$(CARGO) fmt --all --manifest-path tools/Cargo.toml
	$(CARGO) fmt --all --manifest-path rust/Cargo.toml

# What `make` has built is copied, without a compiler, CMake or cargo, and nothing in BUILD is written: `sudo make install`
# leaves no file of root's there. Only where nothing was built is it built first, and never by root in somebody else's folder.
$(STAGED):
	@[ "$$(id -u)" != 0 ] || [ "$$(stat -c %u .)" = 0 ] || \
	    { echo "nothing is built in $(BUILD): run 'make' first, as yourself, then 'sudo make install'" >&2; exit 1; }
	$(MAKE) all

install: $(STAGED)
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh place $(BUILD)

uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh remove

# Of a commit and not of what lies here, so nothing that was built is used.
release:
	@[ -n '$(TAG)' ] || { echo "make release TAG=v1.2.3: which tag?" >&2; exit 1; }
	BUILD='$(BUILD)' scripts/release.sh '$(TAG)' dist

clean:
	rm -rf $(BUILD)
