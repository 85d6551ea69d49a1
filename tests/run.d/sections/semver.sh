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
  # A crate that is not published is looked at only if it is named, with its manifest.
  run_logged "cargo semver-checks since $tag" "$CARGO_SEMVER_CHECKS" semver-checks \
    --manifest-path client/rust/Cargo.toml --package panelboard-client --baseline-rev "$tag"
  local code=$?
  if ((code != 0)); then
    count 0 1 0
  elif ! grep -q ' Checked ' "$LOG"; then
    fail 'cargo semver-checks looked at nothing' "whole output: $LOG"
  else
    count 1 0 0
  fi
}
