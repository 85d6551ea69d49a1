# The client in every set of its features: what compiles with all of them need not compile with one.

about_features() { echo 'the client in every set of its features compiles, without a warning'; }
needs_features() { echo rust; }

section_features() {
  need_cargo_hack || return
  # Without --no-dev-deps, which would rewrite manifests in the tree: cargo leaves the features that only tests ask for
  # alone as long as no test is built.
  run_logged 'cargo hack --feature-powerset check' \
    "$CARGO_HACK" hack --feature-powerset check --package panelboard-client --quiet
  local code=$?
  if ((code == 0)) && grep -q '^warning: ' "$LOG"; then
    sed -n '/^warning: /,/^$/p' "$LOG" | head -n 30 | sed 's/^/    | /'
    fail 'a set of features has warnings' "whole output: $LOG"
  elif ((code == 0)); then
    count 1 0 0
  else
    count 0 1 0
  fi
}
