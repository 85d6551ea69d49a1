# Everything that can be said about the text of the repository without running it.

about_lint() { echo 'formatting, clippy, documentation, the contract, dependencies, and rules of our own'; }
needs_lint() { echo rust rust_lints python; }

section_lint() {
  check 'rustfmt' cargo fmt --all --check -- --color never
  check 'lock file is current' cargo metadata --locked --format-version 1 --quiet
  check 'clippy' cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings
  check 'rustdoc' env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
  if need_python; then
    check 'buf lint' "$BUF" lint
    check 'buf format' "$BUF" format --diff --exit-code
    lint_house
  fi
  if need_cargo_deny; then
    check 'cargo deny' "$CARGO_DENY" --all-features check bans licenses sources
  fi
}

# Our own rules, one check each: the program lists them.
lint_house() {
  local rule
  for rule in $("$PYTHON" tests/run.d/house.py --list); do
    check "house rule $rule" "$PYTHON" tests/run.d/house.py "$rule"
  done
}
