#!/usr/bin/env bash
# Lays out the programs that check and run what users put into their repositories:
#
#   fetch.sh DIR
#
#   DIR/venv/bin/{act,actionlint,check-jsonschema,yamllint,zizmor}   the linters, and the runner of GitHub's workflows
#   DIR/node_modules/.bin/gitlab-ci-local                            the runner of GitLab's pipelines; it needs rsync
#   chromium, from Debian                                            the browser that looks at pages, unless there is one
#   DIR/unavailable                                                  why something could not be had, a line each
#
# Everything is pinned by version and checksum (requirements.txt, package-lock.json) and is used again when it is there.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)

say() { printf 'tests/ci: %s\n' "$*"; }

# Records why something is missing, for the tests that need it.
unavailable() {
  say "$*"
  printf '%s\n' "$*" >>"$dir/unavailable"
  return 1
}

# One script at a time fills the directory.
exec 9>"$dir/.lock"
if command -v flock >/dev/null; then flock 9; fi
rm -f "$dir/unavailable"

# Installs a Debian package when that is possible without asking anybody.
apt_install() {
  command -v apt-get >/dev/null || return 1
  local as=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || return 1
    as=(sudo -n)
  fi
  say "installing $* with apt-get"
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
    apt-get -qq update && apt-get -qq install -y --no-install-recommends "$@"' apt "$@" >"$dir/apt.log" 2>&1 </dev/null
}

# Whether what was installed is what is wanted now.
complete() { [ "$(cat "$dir/$1.complete" 2>/dev/null)" = "$(cat "${@:2}" | sha256sum)" ]; }
completed() { cat "${@:2}" | sha256sum >"$dir/$1.complete"; }

python_tools() {
  local python
  if complete venv "$here/requirements.txt" && "$dir/venv/bin/act" --version >/dev/null 2>&1; then return; fi
  if ! python=$(command -v python3) || ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    apt_install python3 python3-venv || true
    python=$(command -v python3) || unavailable "the linters need Python 3: apt-get install python3 python3-venv" || return
  fi
  rm -rf "$dir/venv"
  "$python" -m venv "$dir/venv" >"$dir/venv.log" 2>&1 ||
    unavailable "Python's venv module does not work: $(tail -n 1 "$dir/venv.log")" || return
  say "installing the linters and act (pinned by checksum)"
  "$dir/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
    --require-hashes --requirement "$here/requirements.txt" >"$dir/pip.log" 2>&1 </dev/null ||
    unavailable "pip could not install tests/ci/requirements.txt: $(tail -n 1 "$dir/pip.log")" || return
  completed venv "$here/requirements.txt"
}

node_tools() {
  if ! command -v rsync >/dev/null; then
    apt_install rsync || true
    command -v rsync >/dev/null || unavailable "gitlab-ci-local needs rsync: apt-get install rsync" || return
  fi
  if complete node "$here/package.json" "$here/package-lock.json" &&
    [ -x "$dir/node_modules/.bin/gitlab-ci-local" ]; then return; fi
  command -v npm >/dev/null || unavailable "gitlab-ci-local needs Node.js 20 or newer with npm: https://nodejs.org" || return
  say "installing gitlab-ci-local (pinned by checksum)"
  cp "$here/package.json" "$here/package-lock.json" "$dir/"
  (cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel error) >"$dir/npm.log" 2>&1 </dev/null ||
    unavailable "npm could not install tests/ci/package-lock.json: $(tail -n 1 "$dir/npm.log")" || return
  completed node "$here/package.json" "$here/package-lock.json"
}

# The browser is a program of the machine: it needs libraries and fonts that no archive of its own brings along.
browser() {
  local name
  for name in "${KL_TEST_BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then return; fi
  done
  apt_install chromium fonts-dejavu-core || true
  command -v chromium >/dev/null ||
    unavailable "pages are looked at in Chromium, which is not there: apt-get install chromium, or name another one in" \
      "KL_TEST_BROWSER"
}

python_tools || true
node_tools || true
browser || true
