# What one does here every day. `just` lists them.

_default:
    @just --list

# All tests
test *ARGS:
    cargo test --workspace --all-features {{ARGS}}

# What CI checks before the tests
check:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo doc --workspace --no-deps --all-features

# Each feature subset, without warnings
subsets:
    .ci/features all

# How many crates each set of features brings
crates:
    .ci/crates

# What embedders see; review the difference
public-api:
    .ci/public-api >docs/public-api.txt
    git diff docs/public-api.txt

# What it costs, against the floor and the peers
bench *ARGS:
    cargo bench --all-features {{ARGS}}

# The same work in a peer, side by side
peers:
    benches/peers/compare

# One fuzzer or all of them, for so many seconds each
fuzz fuzzer="all" seconds="60":
    fuzz/run {{fuzzer}} {{seconds}}

# What takes too long for CI: a hundred times the runs and kills of the tests, 10,000 calls of the server, and fuzzers for so many seconds each
soak seconds="1800":
    METIER_SOAK_RUNS=1000000 cargo test --release --all-features --test soak -- --nocapture
    METIER_SOAK_CALLS=10000 cargo test --release --all-features --test server mcp::soak -- --nocapture
    METIER_SOAK_KILLS=5000 cargo test --release --all-features --test command kill:: -- --nocapture
    just loaded
    fuzz/run all {{seconds}}

# The WebAssembly plug-ins of the tests in Extism itself, whose answers must be the recorded ones
oracle:
    cargo build --manifest-path tests/oracle/Cargo.toml --target-dir target/oracle
    METIER_ORACLE=target/oracle/debug/oracle cargo test --all-features --test languages wasm::extism

# The answers of Extism recorded anew, after a case was added or changed
record-oracle:
    cargo build --manifest-path tests/oracle/Cargo.toml --target-dir target/oracle
    METIER_ORACLE=target/oracle/debug/oracle METIER_ORACLE_RECORD=1 cargo test --all-features --test languages wasm::extism

# The sandbox on Debian's kernels 5.10, 6.1 and 6.12, or with `arm64` on that of its next release, each in an emulated machine, half an hour
# for one; `short` takes four minutes; `starts` compares with bubblewrap; `filesystems` tries NFS, 9p and overlayfs
kernels *ARGS:
    tests/kernels/run {{ARGS}}

# All tests on a machine with four times as much to do as it has processors
loaded:
    #!/usr/bin/env bash
    cargo test --workspace --all-features --no-run
    for _ in $(seq $((4 * $(nproc)))); do while :; do :; done & done
    trap 'kill $(jobs -p)' EXIT
    cargo test --workspace --all-features --no-fail-fast

# Everything CI does
ci:
    bash .ci/run
