#!/usr/bin/env bash
# How long `kl report` takes to write a page about many runs, and how long a browser needs until the page can be used:
#
#   ./benches/report.sh                2,000 runs
#   RUNS=500 ./benches/report.sh
#
# kl is a release build; KL names another binary. The embedded SQLite database is measured, and PostgreSQL as well when
# KL_TEST_POSTGRES_URL names a server on which databases may be created. The runs are made by benches/report.py, always the
# same ones. "usable" is the browser's own time from the beginning of the navigation until filters, timeline and stories
# work, as the page notes it; the least of five tries in headless Chromium.
#
# 2,000 runs, Chromium 156, two cores that had much else to do: 6.8 MB, usable after 424 ms; to write them took a kl without
# optimisation 3.0 s of processor time.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RUNS=${RUNS:-2000}

fail() {
  printf 'benches/report.sh: %s\n' "$*" >&2
  exit 1
}
command -v python3 >/dev/null || fail "python3 is needed to make the runs"
command -v "${KL_TERRAFORM:-terraform}" >/dev/null || fail "terraform is needed to make a plan"
for browser in "${KL_TEST_BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable; do
  if [ -n "$browser" ] && command -v "$browser" >/dev/null; then break; fi
  browser=
done
if [ -z "${KL:-}" ]; then
  cargo build --release --quiet
  KL=${CARGO_TARGET_DIR:-target}/release/kl
fi
KL=$(realpath "$KL")
benches=$PWD/benches

work=$(mktemp -d "${TMPDIR:-/tmp}/kl-report.XXXXXX")
postgres= # the database that has to be dropped
cleanup() {
  if [ -n "$postgres" ]; then
    psql --quiet "$KL_TEST_POSTGRES_URL" -c "DROP DATABASE $postgres WITH (FORCE)" || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT
export CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1
unset KL_DATABASE_URL

# A spec as kl writes it: each run has one like it.
mkdir -p "$work/repo/.git" "$work/repo/live"
cat >"$work/repo/live/main.tf" <<'HCL'
resource "terraform_data" "a" { input = 1 }
resource "terraform_data" "b" {
  count = 4
  input = terraform_data.a.output
}
HCL
(cd "$work/repo" && "$KL" plan live --out "$work/spec.json" >/dev/null 2>&1) || fail "kl plan failed"

now() { date +%s.%N; }
row() { printf '%-34s %s\n' "$@"; }

on() { # the name of the database, its address, what runs SQL on it
  local name=$1 url=$2 began
  shift 2
  "$KL" --database "$url" db migrate >/dev/null
  python3 "$benches/report.py" "$name" "$RUNS" "$work/spec.json" >"$work/runs.sql"
  "$@" <"$work/runs.sql" >/dev/null
  began=$(now)
  (cd "$work/repo" && "$KL" --database "$url" report --out "$work/page.html" --limit "$RUNS") 2>"$work/said" ||
    fail "kl report failed: $(cat "$work/said")"
  row "kl report, $name" "$(awk -v a="$began" -v b="$(now)" 'BEGIN { printf "%.2f s", b - a }')"
}

printf '%d runs\n\n' "$RUNS"
# shellcheck disable=SC2016 # the inner Python reads the variable
on sqlite "$work/kl.db" python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.stdin.read())' "$work/kl.db"
row "the page" "$(stat -c %s "$work/page.html") bytes"
if [ -n "${KL_TEST_POSTGRES_URL:-}" ]; then
  command -v psql >/dev/null || fail "psql is needed to make a database"
  postgres="kl_report_$$"
  psql --quiet "$KL_TEST_POSTGRES_URL" -c "CREATE DATABASE $postgres"
  url=$(sed -E "s,(postgres(ql)?://[^/]*)/[^?]*,\1/$postgres," <<<"$KL_TEST_POSTGRES_URL")
  on postgres "$url" psql --quiet -v ON_ERROR_STOP=1 "$url"
else
  row "kl report, postgres" "not measured: KL_TEST_POSTGRES_URL is not set"
fi
if [ -n "${KEEP:-}" ]; then cp "$work/page.html" "$KEEP"; fi
if [ -n "$browser" ]; then
  for _ in 1 2 3 4 5; do
    "$browser" --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$work/browser" \
      --dump-dom "file://$work/page.html" 2>/dev/null | grep -o 'data-ready="[0-9]*"' | tr -dc '0-9\n'
  done | sort -n | head -n 1 >"$work/ready"
  row "the page, usable in the browser" "$(cat "$work/ready") ms"
else
  row "the page, usable in the browser" "not measured: there is no Chromium"
fi
