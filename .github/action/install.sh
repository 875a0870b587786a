#!/usr/bin/env bash
# The step of action.yml that provides kl: from the runner's tool cache, else a release that its checksum proves whole,
# else built from the action's own source with the runner's Rust. Says where it is in the output `kl`.

set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache="${RUNNER_TOOL_CACHE:-${HOME}/.cache/kl-action}/kl"
scratch=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/kl-install.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

say() { printf 'kl: %s\n' "$*"; }
# Exit code 3, as kl's own for a wrong environment.
refuse() {
  printf '::error title=kl::%s\n' "$*"
  exit 3
}

sha256() {
  if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

# The platform, as releases name it; empty where there is none for it.
platform() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) printf 'x86_64-unknown-linux-musl' ;;
    Linux-aarch64 | Linux-arm64) printf 'aarch64-unknown-linux-musl' ;;
    Darwin-x86_64) printf 'x86_64-apple-darwin' ;;
    Darwin-arm64) printf 'aarch64-apple-darwin' ;;
  esac
}

# The repository that this action comes from: where the runner has put it tells it more reliably than the context does
# when composite actions are nested.
action_repository() {
  case $source_dir in
    */_actions/*/*/*) printf '%s' "${source_dir##*/_actions/}" | cut -d / -f 1,2 ;;
    *) printf '%s' "${KL_ACTION_REPOSITORY:-}" ;;
  esac
}

# The version that this code has.
source_version() { sed -n 's/^version = "\([^"]*\)"$/\1/p' "$source_dir/Cargo.toml" | head -n 1; }

# What this code is, so that a changed branch is never served by an old build.
source_digest() {
  (
    cd "$source_dir"
    find Cargo.toml Cargo.lock src migrations -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256 | cut -c 1-16
  )
}

# Ends the step with this program.
use() {
  "$1" --version >/dev/null || refuse "$1 does not run on this machine"
  say "$("$1" --version) ($2)"
  printf 'kl=%s\n' "$1" >>"$GITHUB_OUTPUT"
  exit 0
}

# Puts a program into the cache in one step: jobs of one machine may come here at the same time.
keep() {
  mkdir -p "$(dirname "$2")"
  cp "$1" "$2.$$"
  chmod 755 "$2.$$"
  mv -f "$2.$$" "$2"
}

# GETs a file of a release; gives the HTTP status, or 000 when there was no answer.
fetch() {
  curl --silent --location --retry 3 --retry-delay 2 --connect-timeout 20 --max-time 300 \
    --proto '=https,http' --output "$2" --write-out '%{http_code}' "$1" || true
}

# Installs a released version. Returns 1 when there is none for this platform; anything wrong with one ends the step.
release() {
  local version=$1 target program url repository archive status wanted found
  target=$(platform)
  [ -n "$target" ] || return 1
  program="$cache/$version/$target${KL_INPUT_SHA256:+-$KL_INPUT_SHA256}/kl"
  if [ -x "$program" ]; then use "$program" "from the tool cache"; fi
  url=${KL_INPUT_RELEASE_URL:-}
  if [ -z "$url" ]; then
    repository=$(action_repository)
    # With `uses: ./` there is no repository that could have releases.
    [ -n "$repository" ] || return 1
    url="${GITHUB_SERVER_URL:-https://github.com}/$repository/releases/download"
  fi
  archive="kl-$target.tar.gz"
  status=$(fetch "$url/v$version/$archive" "$scratch/$archive")
  if [ "$status" != 200 ]; then
    say "there is no $archive of version $version at $url (HTTP status $status)"
    return 1
  fi
  wanted=${KL_INPUT_SHA256:-}
  if [ -z "$wanted" ]; then
    status=$(fetch "$url/v$version/SHA256SUMS" "$scratch/SHA256SUMS")
    [ "$status" = 200 ] || refuse "$url/v$version/SHA256SUMS cannot be read (HTTP status $status), so $archive is not used"
    wanted=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$scratch/SHA256SUMS")
    [ -n "$wanted" ] || refuse "$url/v$version/SHA256SUMS does not list $archive, so it is not used"
  fi
  found=$(sha256 "$scratch/$archive" | cut -d ' ' -f 1)
  [ "$found" = "$wanted" ] ||
    refuse "$archive of version $version has the SHA-256 $found, and should have $wanted: it is not used"
  tar -xzf "$scratch/$archive" -C "$scratch" kl || refuse "$archive of version $version holds no kl"
  keep "$scratch/kl" "$program"
  use "$program" "release $version, checksum verified"
}

build() {
  local program
  program="$cache/$(source_version)-$(source_digest)/$(uname -s)-$(uname -m)/kl"
  if [ -x "$program" ]; then use "$program" "from the tool cache"; fi
  command -v cargo >/dev/null ||
    refuse "kl has to be built from source, and there is no Rust on this runner: install it (https://rustup.rs)" \
      "in an earlier step, or set the input \`version\` to a release for $(uname -s) on $(uname -m)"
  echo "::group::Build kl from source (this takes some minutes; a released version does not)"
  # The target directory stays out of the action's own, which may be read-only, and out of the checkout.
  cargo build --release --locked --bin kl --manifest-path "$source_dir/Cargo.toml" --target-dir "$scratch/target" ||
    refuse "kl could not be built from source; it needs Rust $(sed -n 's/^rust-version = "\([^"]*\)"$/\1/p' "$source_dir/Cargo.toml") or newer"
  echo "::endgroup::"
  keep "$scratch/target/release/kl" "$program"
  use "$program" "built from source"
}

case ${KL_INPUT_SHA256:-} in
  *[!0-9a-f]*) refuse "the input \`sha256\` is a checksum in lower-case hexadecimal" ;;
esac
case ${KL_INPUT_VERSION:-} in
  source) ;;
  "") release "$(source_version)" || true ;;
  *[!0-9A-Za-z.+-]*) refuse "the input \`version\` is a released version such as 0.1.0, or \`source\`" ;;
  *)
    release "${KL_INPUT_VERSION#v}" || true
    [ "${KL_INPUT_VERSION#v}" = "$(source_version)" ] ||
      refuse "version ${KL_INPUT_VERSION#v} has no release for $(uname -s) on $(uname -m), and the source of this action" \
        "is version $(source_version): use the action at the tag v${KL_INPUT_VERSION#v} to build that"
    ;;
esac
build
