# Every interleaving of a caller and the client's thread over the hot path's atomics: client/rust/hotpath/tests/loom.rs.

about_loom() { echo 'every interleaving of the hot path, explored by loom'; }
needs_loom() { echo rust; }

section_loom() {
  # A folder of its own: other RUSTFLAGS would have everything else built anew.
  run_logged 'loom' env RUSTFLAGS="${RUSTFLAGS-} --cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test --package panelboard-hotpath --test loom
  # Without its cfg the target is empty, and a run of nothing is a failure.
  count_cargo "$LOG" $?
}
