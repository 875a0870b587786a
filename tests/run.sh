#!/usr/bin/env bash
# Runs every test, on SQLite and on a PostgreSQL of its own:
#
#   ./tests/run.sh                 everything
#   ./tests/run.sh conflict        what the test runner selects by these arguments
#
# The PostgreSQL server is started for this run (any installed version, as an unprivileged user, on a socket in a
# temporary directory) and removed afterwards; KL_TEST_POSTGRES_URL names a server to use instead.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'tests/run.sh: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

# ---------------------------------------------------------------------------------------------- PostgreSQL

postgres_bin=     # where the server's programs are
postgres_dir=     # its data, log and socket; removed at the end
postgres_as=()    # runs a program as the user that the server belongs to
postgres_started= # whether there is a server to stop

# The directory with the newest server's programs.
find_postgres() {
  local candidate candidates=()
  if command -v pg_config >/dev/null; then
    candidates+=("$(pg_config --bindir 2>/dev/null)")
  fi
  while IFS= read -r candidate; do
    candidates+=("$candidate")
  done < <(printf '%s\n' /usr/lib/postgresql/*/bin | sort --version-sort --reverse)
  if command -v initdb >/dev/null; then
    candidates+=("$(dirname "$(readlink -f "$(command -v initdb)")")")
  fi
  for candidate in "${candidates[@]}"; do
    if [ -x "$candidate/initdb" ] && [ -x "$candidate/pg_ctl" ] && [ -x "$candidate/postgres" ]; then
      printf '%s' "$candidate"
      return
    fi
  done
  return 1
}

# Installs Debian's server when that is possible without asking anybody.
install_postgres() {
  local as=() log
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || return 1
    as=(sudo -n)
  fi
  say "no PostgreSQL server found: installing Debian's postgresql package"
  log=$("${as[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
    apt-get -qq update && apt-get -qq install -y --no-install-recommends postgresql' 2>&1 </dev/null) || {
    say "apt-get failed: $(printf '%s' "$log" | tail -n 1)"
    return 1
  }
}

# PostgreSQL refuses to run as root.
choose_postgres_user() {
  local user=postgres
  if [ "$(id -u)" -ne 0 ]; then
    return
  fi
  id postgres >/dev/null 2>&1 || user=nobody
  chown "$user" "$postgres_dir"
  if command -v runuser >/dev/null; then
    postgres_as=(runuser -u "$user" --)
  elif command -v setpriv >/dev/null; then
    postgres_as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --)
  else
    # shellcheck disable=SC2016 # the inner shell expands "$@"
    postgres_as=(su -s /bin/sh "$user" -c 'exec "$0" "$@"' --)
  fi
}

start_postgres() {
  if ! postgres_bin=$(find_postgres); then
    install_postgres || true
    postgres_bin=$(find_postgres) || fail "the tests need a PostgreSQL server's programs (13 or newer):" \
      "apt-get install postgresql, or set KL_TEST_POSTGRES_URL to a server whose databases may be created and dropped"
  fi
  # A short path: a socket's name must not be longer than about 100 bytes. In memory where there is room: each test has
  # a database of its own, of some hundred files.
  local place=/tmp room
  room=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || room=0
  if [ -w /dev/shm ] && [ "${room:-0}" -gt 4000000 ]; then
    place=/dev/shm
  fi
  postgres_dir=$(mktemp -d "$place/kl-pg.XXXXXX")
  choose_postgres_user
  chmod 700 "$postgres_dir"
  # The working directory may be closed to that user, and the programs complain about it.
  (
    cd "$postgres_dir"
    "${postgres_as[@]}" "$postgres_bin/initdb" --pgdata "$postgres_dir/data" --username kl --auth trust \
      --encoding UTF8 --locale C --no-sync >"$postgres_dir/initdb.log" 2>&1
  ) || fail "initdb failed: $(tail -n 3 "$postgres_dir/initdb.log")"
  # Nothing here outlives the run, so nothing has to survive a crash. Many tests are connected at the same time.
  postgres_started=yes
  (
    cd "$postgres_dir"
    "${postgres_as[@]}" "$postgres_bin/pg_ctl" --pgdata "$postgres_dir/data" --log "$postgres_dir/server.log" -w -s \
      -o "-k $postgres_dir -c listen_addresses='' -c fsync=off -c synchronous_commit=off -c full_page_writes=off" \
      -o "-c max_connections=300" start
  ) || fail "PostgreSQL did not start: $(tail -n 3 "$postgres_dir/server.log")"
  export KL_TEST_POSTGRES_URL="postgres:///postgres?host=$postgres_dir&user=kl"
}

remove_postgres() {
  # A second Ctrl-C must not leave the server behind.
  trap '' INT TERM HUP
  if [ -n "$postgres_started" ]; then
    (cd / && "${postgres_as[@]}" "$postgres_bin/pg_ctl" --pgdata "$postgres_dir/data" -m immediate -s stop) || true
  fi
  if [ -n "$postgres_dir" ]; then
    rm -rf "$postgres_dir"
  fi
}

# The shell waits for the program in the foreground, which gets a Ctrl-C as well, before it comes here.
trap remove_postgres EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# -------------------------------------------------------------------------------------------------- checks

command -v cargo >/dev/null || fail "the tests need Rust's cargo: install Rust (https://rust-lang.org/tools/install)"
command -v terraform >/dev/null || command -v tofu >/dev/null || [ -n "${KL_TERRAFORM:-}" ] ||
  fail "the tests need terraform (1.4 or newer) or tofu on PATH: https://developer.hashicorp.com/terraform/install" \
    "or https://opentofu.org/docs/intro/install"

fixtures="${CARGO_TARGET_DIR:-target}/test-fixtures"
tests/fixtures/providers/fetch.sh "$fixtures" >&2
fixtures=$(cd "$fixtures" && pwd)
export KL_TEST_PROVIDER_MIRROR="$fixtures/mirror"
export KL_TEST_TERRAFORMRC="$fixtures/terraformrc"
tests/ci/fetch.sh "$fixtures/ci" >&2
export KL_TEST_CI_TOOLS="$fixtures/ci"

if [ -z "${KL_TEST_POSTGRES_URL:-}" ]; then
  start_postgres
  say "PostgreSQL from $postgres_bin, for this run only"
fi

# --------------------------------------------------------------------------------------------------- tests

# The examples in the documentation first: the summary of the tests proper is the last thing to be seen.
if [ $# -eq 0 ]; then
  cargo test --doc --quiet
fi
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run ${CI:+--profile ci} "$@"
else
  cargo test --all-targets "$@"
fi
