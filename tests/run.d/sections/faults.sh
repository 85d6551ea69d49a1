# Every fault that a control plane can have, made on purpose, and what the client's application sees of it: tests/faults.

about_faults() { echo 'a server killed, frozen, cut off, slow or refusing, and what its clients do meanwhile: prints the fault matrix'; }
needs_faults() { echo rust; }

section_faults() {
  build_server || return
  run_logged 'fault matrix' env PANEL_BINARY="$SERVER" cargo test --quiet --test faults -- --matrix
  local code=$?
  # The table is what this section is for, and what was left out must be seen.
  sed -n '/^fault  /,$p' "$LOG" | grep -v '^FAILED\|passed, ' | sed 's/^/  /'
  # It closes as `cargo test` targets of their own harness do.
  count_cargo "$LOG" "$code"
}
