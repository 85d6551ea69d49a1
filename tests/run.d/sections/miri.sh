# The hot path's own tests under Miri, which knows what the memory model allows beyond what this processor does.

about_miri() { echo "the hot path's tests under Miri, where a nightly toolchain has it"; }
needs_miri() { echo rust; }

section_miri() {
  local remedy='rustup toolchain install nightly --component miri,rust-src'
  if ! cargo +nightly miri --version >/dev/null 2>&1; then
    skip 'miri' "no nightly toolchain with Miri; to have it: $remedy"
    return
  fi
  # Miri brings a standard library of its own, once; that needs the sources, and without them the network.
  if ! capture "$LOGS/miri-setup.log" cargo +nightly miri setup; then
    skip 'miri' "its standard library cannot be built (see $LOGS/miri-setup.log); to have its sources: $remedy"
    return
  fi
  run_logged 'miri' env CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri" \
    cargo +nightly miri test --package panelboard-hotpath --lib
  count_cargo "$LOG" $?
}
