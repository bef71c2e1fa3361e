# The front door. `make run` and `make test` install what is missing; the other targets take what is there.
#
#   make            builds build/parley         make fuzz [RUNS=10000000] [TARGET=fuzz_url]
#   make run        serves on port 5300         make bench [FIGURES="start http"]
#   make test       everything, counted         make asan     unit tests with ASan and UBSan
#   make unit       unit tests only             make coverage lines covered by unit and black-box tests
#   make lint       the checks of the source    make format   lets clang-format rewrite the source
#   make clean      removes what was built

BUILD ?= build
JOBS ?= $(shell nproc)
RUNS ?= 10000000
export BUILD JOBS

.NOTPARALLEL:
.PHONY: all run test unit bench fuzz lint asan coverage clean format packages panel binary

all: binary

packages:
	@scripts/install_packages.sh

panel:
	@scripts/build_panel.sh

binary:
	@scripts/configure.sh $(BUILD)
	@ninja -C $(BUILD) -j $(JOBS) parley

run: packages panel binary
	@exec $(BUILD)/parley serve --data ./data

test:
	@scripts/run_tests.sh $(STAGES)

unit:
	@scripts/configure.sh $(BUILD)
	@meson test -C $(BUILD) --print-errorlogs --num-processes $(JOBS)

lint:
	@scripts/lint.sh

asan:
	@scripts/configure.sh $(BUILD)-asan -Db_sanitize=address,undefined -Db_lundef=false -Dpanel=false
	@meson test -C $(BUILD)-asan --print-errorlogs --num-processes $(JOBS)

coverage: panel
	@scripts/coverage.sh

fuzz:
	@scripts/fuzz.sh -r $(RUNS) $(TARGET)

bench: panel binary
	@scripts/bench.sh $(FIGURES)

format:
	@find src tests/unit tests/fuzz tests/bench tools -name '*.[ch]' -print0 | xargs -0r clang-format -i

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-clang $(BUILD)-coverage $(BUILD)-fuzz web/dist
