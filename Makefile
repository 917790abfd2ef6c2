# kloop's commands. Each says in one line what it misses and how to get it.
#
#   make demo       a broker, a producer and a consumer in one thread, measured
#   make test       everything that needs no foreign peer
#   make examples   the C programs of examples/c, into build/
#   make examples-loops   the programs for libuv, libev and asio, and the C++ one
#   make embed      every loop, linker and language that a host may have, a row each
#   make interop    installs real Kafka peers into .interop/ and runs the matrix
#   make limit      kloop beside the raw limit of the machine, as ratios (4 minutes)
#   make choices    what PREFAULT, huge pages and busy polling buy
#   make dist       what is shipped, into dist/: both libraries, headers, pkg-config, CMake, SBOM;
#                   TRIPLE=x86_64-unknown-linux-musl makes the archive for static programs,
#                   FEATURES=gzip,snappy,lz4 builds with these codecs only, FEATURES=none without
#   make install    copies dist/ to DESTDIR PREFIX (/usr/local) LIBDIR (PREFIX/lib)
#   make header     writes include/kloop.h anew
#   make fuzz       runs the fuzz targets for SECONDS each (60)

CC ?= cc
CXX ?= c++
CARGO ?= cargo
BUILD := build
TARGET := $(or $(CARGO_TARGET_DIR),target)
LIB := $(TARGET)/release/libkloop.a
CFLAGS ?= -O2
STRICT := -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude
LIBS := -lpthread -lm -ldl
EXAMPLES := pipeline producer consumer broker proxy
ROLES := producer consumer broker
# libuv's header wants more than strict C gives it.
STRICT_LOOPS := $(subst -std=c11,-std=gnu11,$(STRICT))
STRICT_CXX := -std=c++17 -Wall -Wextra -Wpedantic -Werror -Iinclude
ADAPTERS := $(wildcard include/kloop/*.hpp include/kloop/adapters/*)
SECONDS := 60
# Empty is this machine's; another one gets a folder of its own below dist/.
TRIPLE ?=
DIST := dist$(TRIPLE:%=/%)
DIST_LIB := $(TARGET)/$(TRIPLE:%=%/)release/libkloop.a
# The codecs to build, with commas between; empty is all, none is none. Cargo.toml lists them.
FEATURES ?=
CODEC_ARGS := $(if $(FEATURES),--no-default-features $(patsubst %,--features %,$(filter-out none,$(FEATURES))))
# zstd is C: for musl it is compiled with musl's headers, whatever CC names. This is the variable that
# names the compiler for that; empty for other targets, and without zstd.
WITH_ZSTD := $(if $(FEATURES),$(findstring zstd,$(FEATURES)),zstd)
MUSL_CC := $(if $(WITH_ZSTD),$(if $(filter $(shell uname -m)-unknown-linux-musl,$(TRIPLE)),CC_$(subst -,_,$(TRIPLE))))
ifneq ($(MUSL_CC),)
export $(MUSL_CC) ?= musl-gcc
endif
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
# The header of each minor version is kept, for programs of the past.
ABI := ffi-tests/abi/$(shell sed -n 's/^version = "\([0-9]*\.[0-9]*\).*/\1/p;/^version/q' Cargo.toml)

.PHONY: demo test examples examples-loops embed interop limit choices dist install header fuzz clean tools tools-loops lib

demo: examples
	$(BUILD)/pipeline

examples: $(addprefix $(BUILD)/,$(EXAMPLES))

$(BUILD)/pipeline: examples/c/pipeline.c examples/c/heap_count.c examples/c/heap_count.h examples/c/program.h include/kloop.h lib
	@mkdir -p $(BUILD)
	$(CC) $(STRICT) $(CFLAGS) examples/c/pipeline.c examples/c/heap_count.c $(LIB) $(LIBS) -o $@

$(BUILD)/%: examples/c/%.c examples/c/program.h include/kloop.h lib
	@mkdir -p $(BUILD)
	$(CC) $(STRICT) $(CFLAGS) $< $(LIB) $(LIBS) -o $@

examples-loops: tools-loops $(foreach loop,uv ev asio,$(ROLES:%=$(BUILD)/loops/$(loop)_%)) $(BUILD)/raii

$(BUILD)/loops/uv_%: examples/loops/uv_%.c include/kloop.h $(ADAPTERS) lib
	@mkdir -p $(@D)
	$(CC) $(STRICT_LOOPS) $(CFLAGS) $< $(LIB) -luv $(LIBS) -o $@

$(BUILD)/loops/ev_%: examples/loops/ev_%.c include/kloop.h $(ADAPTERS) lib
	@mkdir -p $(@D)
	$(CC) $(STRICT_LOOPS) $(CFLAGS) $< $(LIB) -lev $(LIBS) -o $@

$(BUILD)/loops/asio_%: examples/loops/asio_%.cpp include/kloop.h $(ADAPTERS) lib
	@mkdir -p $(@D)
	$(CXX) $(STRICT_CXX) $(CFLAGS) $< $(LIB) $(LIBS) -o $@

$(BUILD)/raii: examples/cpp/raii.cpp include/kloop.h $(ADAPTERS) lib
	@mkdir -p $(@D)
	$(CXX) $(STRICT_CXX) $(CFLAGS) $< $(LIB) $(LIBS) -o $@

# Cargo knows best whether the library is up to date.
lib: tools
	$(CARGO) rustc --quiet --release --lib --crate-type staticlib $(CODEC_ARGS)

tools:
	@command -v $(CARGO) >/dev/null || { echo "kloop needs Rust 1.95 or newer: install rustup, then 'rustup update stable'"; exit 1; }
	@command -v $(CC) >/dev/null || { echo "kloop needs a C compiler: 'apt-get install gcc', or set CC"; exit 1; }

# Asked first, as the library takes a minute. CFLAGS may say where the headers are.
tools-loops: tools
	@command -v $(CXX) >/dev/null || { echo "make examples-loops needs a C++ compiler: 'apt-get install g++', or set CXX"; exit 1; }
	@missing=; has() { echo "#include <$$1>" | $(CXX) $(CFLAGS) -E -x c++ - >/dev/null 2>&1 || missing="$$missing $$2"; }; \
	has uv.h libuv1-dev; has ev.h libev-dev; has asio.hpp libasio-dev; \
	[ -z "$$missing" ] || { echo "make examples-loops needs the loops: 'apt-get install$$missing'"; exit 1; }

test: tools
	.ci/test

dist: tools
	@[ -z "$(MUSL_CC)" ] || command -v "$($(MUSL_CC))" >/dev/null || { echo "kloop needs $($(MUSL_CC)) for $(TRIPLE): 'apt-get install musl-tools', or set $(MUSL_CC)"; exit 1; }
	$(CARGO) rustc --quiet --release --lib --crate-type staticlib $(TRIPLE:%=--target %) $(CODEC_ARGS)
	CC="$(CC)" packaging/dist $(DIST_LIB) $(DIST) $(or $(TRIPLE),$$(rustc -vV | sed -n 's/^host: //p')) $(CODEC_ARGS)

# Not after dist by itself: root installs what somebody else has built.
install:
	@packaging/install $(DIST) "$(DESTDIR)" "$(PREFIX)" "$(LIBDIR)"

header: tools
	KLOOP_WRITE_HEADER=1 $(CARGO) test --quiet --features header --test header -- the_header_is
	mkdir -p $(ABI) && cp include/kloop.h $(ABI)/
	$(CARGO) test --quiet --features header --test header

embed: lib
	embed/run

interop: examples
	interop/run

limit: examples
	benches/limit/run

# What a host's choices buy: PREFAULT, huge pages, busy polling.
choices: examples
	$(CC) -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -O2 benches/choices/choices.c $(or $(CARGO_TARGET_DIR),target)/release/libkloop.a -lpthread -lm -ldl -o build/choices
	build/choices

fuzz: tools
	.ci/fuzz $(SECONDS)

clean:
	rm -rf $(BUILD) dist
	$(CARGO) clean
