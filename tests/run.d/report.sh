# Running checks and counting them. A check is one command: its output is kept in a file and shown only when it fails.

PASSED=0
FAILED=0
SKIPPED=0
VERBOSE=0
# How much of a failed check's output is shown; the whole is in the file that is named with it.
TAIL_LINES=80
FAILURES=()

start_report() {
  # Logs of failed checks outlive the run, so they lie beside what cargo builds and not in a temporary folder.
  LOGS=${CARGO_TARGET_DIR:-target}/checks
  mkdir -p "$LOGS" || exit 2
  trap 'printf "\ninterrupted\n"; exit 130' INT TERM
}

heading() {
  printf '\n== %s\n' "$1"
}

# count PASSED FAILED SKIPPED: adds what a runner of many tests reported.
count() {
  PASSED=$((PASSED + $1))
  FAILED=$((FAILED + $2))
  SKIPPED=$((SKIPPED + $3))
}

# fail WHAT [REMEDY]: one failure that has no output of its own.
fail() {
  printf '  FAIL %s\n' "$1"
  [[ -n ${2-} ]] && printf '       %s\n' "$2"
  FAILURES+=("$1")
  count 0 1 0
}

# skip WHAT WHY: one check that did not run.
skip() {
  printf '  skip %s: %s\n' "$1" "$2"
  count 0 0 1
}

# capture LOG COMMAND...: runs it with all its output in LOG, and on the terminal too if asked for.
capture() {
  local log=$1
  shift
  if ((VERBOSE)); then
    printf '\n'
    "$@" 2>&1 | tee "$log"
    return "${PIPESTATUS[0]}"
  fi
  "$@" >"$log" 2>&1
}

# run_logged NAME COMMAND...: runs it, says how it ended, and on failure shows the end of its output and how to run it
# alone. Leaves the log's path in LOG and returns the command's code; counts nothing.
run_logged() {
  local name=$1 began=$SECONDS code
  shift
  LOG=$LOGS/$(tr -c 'A-Za-z0-9\n' '-' <<<"$name").log
  printf '  %s ... ' "$name"
  capture "$LOG" "$@"
  code=$?
  if ((code == 0)); then
    printf 'ok (%d s)\n' $((SECONDS - began))
    return 0
  fi
  printf 'FAILED with exit code %d (%d s)\n' "$code" $((SECONDS - began))
  ((VERBOSE)) || tail -n "$TAIL_LINES" "$LOG" | sed 's/^/    | /'
  printf '    whole output: %s\n' "$LOG"
  # A step that is a function of this script cannot be typed.
  [[ $(type -t "$1") == file ]] && printf '    alone: %s\n' "$(as_typed "$@")"
  FAILURES+=("$name")
  return "$code"
}

# check NAME COMMAND...: one check that counts one.
check() {
  if run_logged "$@"; then
    count 1 0 0
  else
    count 0 1 0
  fi
}

# as_typed COMMAND...: the command in a form that can be pasted into a shell.
as_typed() {
  local word typed=''
  for word in "$@"; do
    if [[ $word =~ ^[A-Za-z0-9_./:=@%+,-]+$ ]]; then
      typed+="$word "
    else
      typed+="'${word//\'/\'\\\'\'}' "
    fi
  done
  printf '%s' "${typed% }"
}

finish_report() {
  heading 'summary'
  if ((${#FAILURES[@]})); then
    printf '  failed: %s\n' "${FAILURES[@]}"
  fi
  if ((PASSED + FAILED + SKIPPED == 0)); then
    fail 'nothing ran' 'a section without a single check is a mistake in tests/run'
  fi
  printf '  took %d s\n' "$SECONDS"
  printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
  ((FAILED == 0))
  exit
}
