# The Rust tests of the whole workspace: unit, integration, documentation, and the behaviour vectors.

about_rust() { echo 'cargo test of the whole workspace, with doc tests and the behaviour vectors'; }
needs_rust() { echo rust; }

section_rust() {
  run_logged 'cargo test' cargo test --workspace --no-fail-fast
  local code=$?
  ((code == 0)) || show_failed_tests "$LOG"
  count_cargo "$LOG" "$code"
}

# show_failed_tests LOG: what each failed test said, and how cargo would have its target run again; the end of the log, which
# is shown anyway, is seldom where they are.
show_failed_tests() {
  awk -v most=30 '
    /^---- .* stdout ----$/ { left = most }
    /^failures:$|^test result:/ { left = 0 }
    left > 0 { print "    | " $0; left-- }
    /^error: test failed, to rerun pass/ { print "    | " $0 }' "$1"
}

# count_cargo LOG CODE: adds up what every test binary in the log reported. Targets with a harness of their own close with
# "N passed, N failed" alone on a line. A run that broke before any test could fail (a compile error, an abort) is one failure.
count_cargo() {
  local passed failed skipped
  read -r passed failed skipped < <(awk '
    /^test result: / {
      gsub(/[;.]/, " ")
      for (i = 2; i <= NF; i++) {
        if ($i == "passed") p += $(i - 1)
        if ($i == "failed") f += $(i - 1)
        if ($i == "ignored") s += $(i - 1)
      }
    }
    /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { p += $1; f += $3; if (NF > 4) s += $5 }
    END { print p + 0, f + 0, s + 0 }' "$1")
  if (($2 != 0 && failed == 0)); then
    failed=1
  fi
  if ((passed + failed == 0)); then
    fail 'cargo test ran nothing' "see $1"
  fi
  printf '  %d passed, %d failed, %d ignored\n' "$passed" "$failed" "$skipped"
  count "$passed" "$failed" "$skipped"
}
