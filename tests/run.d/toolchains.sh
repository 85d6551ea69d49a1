# What this script cannot install by itself: Rust, Go and Python. Each `problem_…` prints what is wrong, or nothing.

GO_MINIMUM=1.24
PYTHON_MINIMUM=3.10

# at_least MINIMUM VERSION: compares dotted numbers.
at_least() {
  [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]
}

problem_rust() {
  local wanted found
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  if ! found=$(rustc --version 2>/dev/null) || ! cargo --version >/dev/null 2>&1; then
    echo "Rust >= $wanted with cargo (there is none on PATH)"
  elif ! found=$(cut -d ' ' -f 2 <<<"$found") || ! at_least "$wanted" "$found"; then
    echo "Rust >= $wanted (found $found)"
  elif ! command -v cc >/dev/null; then
    echo 'a C compiler named cc, which Rust links with'
  fi
}

problem_rust_lints() {
  local parts=()
  cargo fmt --version >/dev/null 2>&1 || parts+=(rustfmt)
  cargo clippy --version >/dev/null 2>&1 || parts+=(clippy)
  ((${#parts[@]} == 0)) || echo "the Rust components ${parts[*]} (rustup component add ${parts[*]})"
}

problem_go() {
  local found
  # Go is here only to build a tool: with the tool already there, nobody needs it.
  [[ -n $(grpcurl_ready) ]] && return
  if ! found=$(go env GOVERSION 2>/dev/null); then
    echo "Go >= $GO_MINIMUM (there is none on PATH)"
  elif ! at_least "$GO_MINIMUM" "${found#go}"; then
    echo "Go >= $GO_MINIMUM (found ${found#go})"
  fi
}

# The first interpreter that is new enough and can make a virtual environment.
python_found() {
  local candidate
  for candidate in python3 python3.{20..10} python; do
    if "$candidate" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (${PYTHON_MINIMUM/./, }))" 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
}

problem_python() {
  [[ -n $(python_found) ]] || echo "Python >= $PYTHON_MINIMUM with venv (Debian: apt-get install python3-venv)"
}

# needs SECTION TOOLCHAIN
needs() {
  [[ " $("needs_$1") " == *" $2 "* ]]
}

# check_toolchains SECTION...: says up front what is missing and for which sections; those alone fail when their turn comes.
check_toolchains() {
  local toolchain section problem sections
  MISSING=()
  for toolchain in rust rust_lints go python; do
    sections=()
    for section in "$@"; do
      needs "$section" "$toolchain" && sections+=("$section")
    done
    ((${#sections[@]})) || continue
    problem=$("problem_$toolchain")
    if [[ -n $problem ]]; then
      MISSING+=("$toolchain")
      printf 'missing: %s\n         needed by: %s\n' "$problem" "${sections[*]}"
    fi
  done
  ((${#MISSING[@]})) || printf 'toolchains: all there\n'
}

# lacks SECTION: whether something is missing that it needs.
lacks() {
  local toolchain
  for toolchain in ${MISSING[@]+"${MISSING[@]}"}; do
    needs "$1" "$toolchain" && return 0
  done
  return 1
}
