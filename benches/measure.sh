# What the benchmarks have in common; they source it. Sets `terraform`, `KL` and `work` (a directory that is removed at
# the end).
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it

fail() {
  printf '%s: %s\n' "$0" "$*" >&2
  exit 1
}
terraform=${KL_TERRAFORM:-terraform}
command -v "$terraform" >/dev/null || fail "terraform is needed: https://developer.hashicorp.com/terraform/install"
if [ -z "${KL:-}" ]; then
  cargo build --release --quiet
  KL=${CARGO_TARGET_DIR:-target}/release/kl
fi
KL=$(realpath "$KL")

work=$(mktemp -d "${TMPDIR:-/tmp}/kl-bench.XXXXXX")
databases=() # those on the server that have to be dropped
cleanup() {
  local database
  for database in "${databases[@]}"; do
    psql --quiet "$KL_TEST_POSTGRES_URL" -c "DROP DATABASE $database WITH (FORCE)" || true
  done
  rm -rf "$work"
}
trap cleanup EXIT
export CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1
unset KL_DATABASE_URL

# Makes a database on the server, and leaves its address in `made`. The server is asked for with KL_TEST_POSTGRES_URL.
made=
make_database() {
  local name="kl_bench_$$_${#databases[@]}"
  command -v psql >/dev/null || fail "psql is needed to make a database"
  psql --quiet "$KL_TEST_POSTGRES_URL" -c "CREATE DATABASE $name"
  databases+=("$name")
  made=$(sed -E "s,(postgres(ql)?://[^/]*)/[^?]*,\1/$name," <<<"$KL_TEST_POSTGRES_URL")
}

# Calls a function with `PostgreSQL` and the address of a new database, or says why not.
on_postgres() {
  if [ -z "${KL_TEST_POSTGRES_URL:-}" ]; then
    printf '\nPostgreSQL is not measured: KL_TEST_POSTGRES_URL is not set.\n'
    return
  fi
  make_database
  "$1" PostgreSQL "$made"
}

row() { printf '%-30s %8s %10s %8s\n' "$@"; }
now() { date +%s.%N; }
difference() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", b - a }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }

# Runs kl and leaves its wall time in `took`, and its own processor time in `own` (/proc does not count the children).
took=
own=
measure() {
  local began ticks pid
  began=$(now)
  "$@" >"$work/out" 2>&1 &
  pid=$!
  ticks=0
  while [ -r "/proc/$pid/stat" ]; do
    ticks=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | awk '{ print $12 + $13 }') || true
    sleep 0.02
    kill -0 "$pid" 2>/dev/null || break
  done
  wait "$pid" || { cat "$work/out" >&2; fail "$* failed"; }
  took=$(difference "$began" "$(now)")
  own=$(awk -v t="${ticks:-0}" -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.2f", t / hz }')
}
