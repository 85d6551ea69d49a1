# Hostile bytes for a while: what the server's ports are sent, and what must still hold afterwards, is in tests/fuzz.

about_fuzz() { echo "random and mutated bytes against the server's ports for FUZZ_SECONDS"; }
needs_fuzz() { echo rust python; }

section_fuzz() {
  need_python && build_server || return
  local seed=${FUZZ_SEED:-$((RANDOM * 32768 + RANDOM))} seconds=${FUZZ_SECONDS:-60}
  printf '  seed %s; to replay: FUZZ_SEED=%s FUZZ_SECONDS=%s tests/run fuzz\n' "$seed" "$seed" "$seconds"
  run_logged "fuzz for $seconds s" env PANEL_BINARY="$SERVER" PYTHONDONTWRITEBYTECODE=1 \
    "$PYTHON" tests/fuzz/fuzz.py --seed "$seed" --seconds "$seconds"
  local code=$?
  grep '^skip' "$LOG" | sed 's/^/  /'
  # It closes as `cargo test` targets of their own harness do.
  count_cargo "$LOG" "$code"
}
