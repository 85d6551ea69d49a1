# The client's public items against those of the last release: what broke needs a version that says so.

about_semver() { echo "the client's API against that of the last tag, where there is one"; }
needs_semver() { echo rust; }

section_semver() {
  local tag
  # A clone without history has no tags either.
  if ! tag=$(git describe --tags --abbrev=0 2>/dev/null); then
    skip 'cargo semver-checks' 'there is no tag to compare with (in a shallow clone: git fetch --tags --unshallow)'
    return
  fi
  need_cargo_semver_checks || return
  check "cargo semver-checks since $tag" \
    "$CARGO_SEMVER_CHECKS" semver-checks --package panelboard-client --baseline-rev "$tag"
}
