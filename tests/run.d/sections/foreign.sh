# Clients that share no code with us, against the real server over real sockets: grpcurl, buf, and Python from generated stubs.

about_foreign() { echo 'grpcurl, buf curl and a Python client against the real server'; }
needs_foreign() { echo rust go python; }

section_foreign() {
  need_python && need_grpcurl && build_server || return
  run_logged 'pytest tests/foreign' env PANEL_BINARY="$SERVER" GRPCURL="$GRPCURL" BUF="$BUF" PYTHONDONTWRITEBYTECODE=1 \
    "$PYTHON" -m pytest -p no:cacheprovider --color=no --tb=short -ra tests/foreign
  count_pytest "$LOG" $?
}

# build_server: leaves the debug server's path in SERVER. All binaries and tests of the workspace, because dependencies are
# then built with the same features as for `cargo test`, once.
build_server() {
  run_logged 'build the server' cargo build --workspace --bins --tests --quiet || { count 0 1 0; return 1; }
  SERVER=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/panelboard
  [[ -x $SERVER ]] || { fail "no server at $SERVER"; return 1; }
}

# count_pytest LOG CODE: adds up pytest's last line. A run without one (broken collection, a crash) is one failure.
count_pytest() {
  local line passed failed skipped errors
  line=$(tail -n 1 "$1")
  passed=$(number_before passed "$line")
  failed=$(number_before failed "$line")
  errors=$(number_before 'errors?' "$line")
  skipped=$(number_before skipped "$line")
  failed=$((failed + errors))
  if (($2 != 0 && failed == 0)); then
    failed=1
  fi
  if ((passed + failed == 0)); then
    fail 'pytest ran nothing' "see $1"
  fi
  printf '  %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  grep '^SKIPPED' "$1" | sed 's/^/  /'
  count "$passed" "$failed" "$skipped"
}

number_before() {
  if [[ $2 =~ ([0-9]+)\ $1 ]]; then
    echo "${BASH_REMATCH[1]}"
  else
    echo 0
  fi
}
