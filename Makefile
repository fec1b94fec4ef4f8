# Short names for what CMakePresets.json and tools/ do.
#
#   make demo    set up, build, train a small GPT-2 with Chimera on real text, and sample from it
#   make test    set up, build, run every test; then the torch-free part under the sanitizers
#   make build   set up and build: the program is build/chimera
#   make lint    formatting and clang-tidy; make format: formatting alone
#   make bench   the measurements of docs/results
#   make paper   the Chimera paper's figures, simulated: CSV, and docs/results/paper.md
#   make core    build and test the part without torch, from nothing in under 30 s
#   make asan | tsan | dev    build and test one preset
#   make clean   remove build/

JOBS ?= $(shell nproc)
# Warnings stop a build in continuous integration, not a user's with a newer compiler.
CONFIGURE_FLAGS ?= -DCHIMERA_WERROR=$(if $(filter true 1,$(CI)),ON,OFF)
PROMPT ?= And God said

.PHONY: demo test build lint format bench paper setup core asan tsan dev clean
.DEFAULT_GOAL := build

build: setup
	cmake --preset release $(CONFIGURE_FLAGS)
	cmake --build --preset release --parallel $(JOBS)

demo: build
	build/chimera train examples/demo.toml --save build/demo
	build/chimera sample build/demo --prompt "$(PROMPT)"

# One after the other: the tests measure time, and no two builds should share the processors.
test: build
	ctest --preset release
	$(MAKE) asan
	$(MAKE) tsan

core asan tsan:
	tools/setup.sh $(if $(filter core,$@),core,mpi)
	cmake --preset $@ $(CONFIGURE_FLAGS)
	cmake --build --preset $@ --parallel $(JOBS)
	ctest --preset $@ --parallel $(JOBS)

dev: setup
	cmake --preset dev
	cmake --build --preset dev --parallel $(JOBS)
	ctest --preset dev

bench: build
	bench/run.sh

# The program's output alone goes to standard output, for `make -s paper > figures.csv`.
paper:
	@{ tools/setup.sh core && cmake --preset core $(CONFIGURE_FLAGS) && \
	  cmake --build --preset core --parallel $(JOBS) --target paper_figures; } >&2
	@build/core/paper_figures >build/core/paper.csv
	@python3 bench/paper/report.py build/core/paper.csv docs/results
	@cat build/core/paper.csv

lint:
	tools/setup.sh lint
	tools/lint.sh

format:
	tools/setup.sh lint
	tools/lint.sh --format

setup:
	tools/setup.sh

clean:
	rm -rf build
