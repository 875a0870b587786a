#!/usr/bin/env bash
# How long the questions about runs and versions take on a long history, beside the same questions on a short one:
#
#   ./benches/history.sh           100,000 runs and versions of one state, each with 10 changed rows: a million lifecycles
#   RUNS=10000 ./benches/history.sh
#
# kl is a release build; KL names another binary. The embedded SQLite database is measured, and PostgreSQL as well when
# KL_TEST_POSTGRES_URL names a server on which databases may be created. The history is written behind kl's back, because
# working it through would take weeks. Each line says the wall time on the long history, and the ratio to the wall time on
# a hundred runs: where it stays near 1, paging is fast however much there is.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RUNS=${RUNS:-100000}

# shellcheck source=measure.sh
. benches/measure.sh
command -v python3 >/dev/null || fail "python3 is needed to write the history"
mkdir -p "$work/repo/.git" "$work/repo/long"
cat >"$work/state.json" <<'JSON'
{
  "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "11111111-2222-3333-4444-555555555555", "outputs": {},
  "resources": [{
    "mode": "managed", "type": "terraform_data", "name": "first",
    "provider": "provider[\"terraform.io/builtin/terraform\"]",
    "instances": [{"schema_version": 0, "attributes": {"id": "x", "input": null, "output": null, "triggers_replace": null},
                   "sensitive_attributes": []}]
  }],
  "check_results": null
}
JSON

# The SQL that makes the history, in the words of one database or the other. Version v changes ten of the rows, and the
# same ten are changed again a thousand versions later.
history() { # sqlite or postgres, how many runs
  python3 - "$1" "$2" <<'PY'
import sys

postgres, runs = sys.argv[1] == "postgres", int(sys.argv[2])
last = runs + 1
cycle = max(1, min(1000, runs // 2))
numbers = "WITH RECURSIVE s (n) AS (SELECT {0} UNION ALL SELECT n + 1 FROM s WHERE n < {1})"
versions, tens = numbers.format(2, last), numbers.format(0, 9)
base = 1_700_000_000  # one run a minute from then on
if postgres:
    at = lambda seconds: f"to_timestamp({base} + ({seconds}))"
    uuid = "CAST('01900000-0000-7000-8000-' || lpad(to_hex(v.n), 12, '0') AS uuid)"
    text = "CAST({} AS json)"
    key = "sha256(int8send(6) || 'object' || int8send(length({0})) || convert_to({0}, 'UTF8') || int8send(0))"
else:
    at = lambda seconds: f"({base} + ({seconds})) * 1000000"
    uuid = "'01900000-0000-7000-8000-' || printf('%012x', v.n)"
    text = "{}"
    key = "row_key({0})"
origin = text.format("""'{"forge":"github","repository":"org/infra","request":' || (v.n % 500 + 1) || '}'""")
# The last of ten rows is in an instance of a module.
inside = lambda yes, no: f"CASE WHEN i.n = 9 THEN {yes} ELSE {no} END"
module = f"""'module.m["' || (v.n % {cycle}) || '"]'"""
address = inside(f"{module} || '.terraform_data.r'", f"'terraform_data.r[' || ((v.n % {cycle}) * 10 + i.n) || ']'")
state = "(SELECT id FROM states)"
constant = lambda value: text.format("'" + value + "'")
tools = constant('{"program":"Terraform","version":"1.11.4","providers":{}}')
end = f"CASE WHEN v.n + {cycle} <= {last} THEN v.n + {cycle} END"
print(f"""
INSERT INTO runs (id, state_id, kind, status, actor, origin, source_serial, tools, claims, reserved_count, started_at,
                  ended_at, result_serial)
SELECT {uuid}, {state}, 'apply', 'committed', 'actor-' || (v.n % 10), {origin}, v.n - 1, {tools},
       {constant('[{"pattern":"terraform_data.r","mode":"write"}]')}, 0, {at('v.n * 60')}, {at('v.n * 60 + 90')}, v.n
FROM ({versions} SELECT n FROM s) AS v;
INSERT INTO state_versions (state_id, serial, source_serial, committed_at, actor, origin, run_id, source, mode,
                            terraform_version, document, providers, rows_opened, rows_closed)
SELECT {state}, v.n, v.n - 1, {at('v.n * 60 + 80')}, 'actor-' || (v.n % 10), {origin}, {uuid}, 'apply', 'row-delta',
       '1.11.4', {constant('[]')}, {constant('{}')}, 10, 10
FROM ({versions} SELECT n FROM s) AS v;
INSERT INTO resources (state_id, from_serial, to_serial, row_key, kind, address, module_path, resource_key, mode, type,
                       name, content_hash)
SELECT {state}, v.n, {end}, {key.format(address)}, 'object', {address}, {inside(module, "''")},
       {inside("'module.m.terraform_data.r'", "'terraform_data.r'")}, 'managed', 'terraform_data', 'r',
       (SELECT content_hash FROM resource_bodies LIMIT 1)
FROM ({versions} SELECT n FROM s) AS v CROSS JOIN ({tens} SELECT n FROM s) AS i;""")
events = [
    '{"kind":"reserved","writes":1,"reads":0,"expires_at":null,"beside":[]}',
    '{"kind":"stale_check_passed","outside":[]}',
    '{"kind":"lane_chosen","lane":"narrow","reasons":[],"slice_rows":10,"trunk_rows":10000,"targets":1}',
    '{"kind":"replanned","relation":"identical","differences":[]}',
    '{"kind":"apply_started"}',
]
for seq, event in enumerate(events, 1):
    kind = event.split('"')[3]
    print(f"""INSERT INTO run_events (run_id, seq, at, kind, event)
SELECT {uuid}, {seq}, {at('v.n * 60')}, '{kind}', {constant(event)} FROM ({versions} SELECT n FROM s) AS v;""")
print(f"UPDATE states SET serial = {last};\nANALYZE;")
PY
}

fill() { # the kind of database, its address, how many runs
  (cd "$work/repo" && "$KL" --database "$2" db migrate >/dev/null &&
    "$KL" --database "$2" state import "$work/state.json" --dir long >/dev/null 2>&1)
  history "$1" "$3" >"$work/history.sql"
  if [ "$1" = postgres ]; then
    psql --quiet --set ON_ERROR_STOP=1 --single-transaction "$2" -f "$work/history.sql"
  else
    python3 - "$2" "$work/history.sql" <<'PY'
import hashlib, sqlite3, sys

def row_key(address):
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in (b"object", address.encode(), b""))
    return hashlib.sha256(parts).digest()

with sqlite3.connect(sys.argv[1], isolation_level=None) as database:
    database.create_function("row_key", 1, row_key, deterministic=True)
    with open(sys.argv[2]) as script:
        database.executescript("BEGIN;" + script.read() + "COMMIT;")
PY
  fi
}

best() { # the least time of three, in `took`
  local least="" began this
  for _ in 1 2 3; do
    began=$(now)
    (cd "$work/repo" && "$KL" "$@") >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "kl $* failed"; }
    this=$(awk -v a="$began" -v b="$(now)" 'BEGIN { printf "%.3f", b - a }')
    least=$(awk -v a="${least:-9999}" -v b="$this" 'BEGIN { printf "%.3f", a < b ? a : b }')
  done
  took=$least
}

run() { printf '01900000-0000-7000-8000-%012x' "$1"; }

on() { # the name of the database, its kind, and the addresses of a long and a short one
  local name=$1 kind=$2 long=$3 short=$4
  fill "$kind" "$short" 100
  fill "$kind" "$long" "$RUNS"
  printf '\n%s: %d runs, %d lifecycles of rows\n' "$name" "$RUNS" $((RUNS * 10))
  printf '%-58s %8s %8s\n' "" "wall s" "ratio"
  ask() { # middle: a serial in the midst of each history
    local line=$1 on_long on_short
    shift
    local -a wanted=("${@//RUN/$(run $((RUNS / 2)))}")
    best --database "$long" "${wanted[@]//SERIAL/$((RUNS / 2))}"
    on_long=$took
    wanted=("${@//RUN/$(run 50)}")
    best --database "$short" "${wanted[@]//SERIAL/50}"
    on_short=$took
    printf '%-58s %8s %8s\n' "$line" "$on_long" "$(awk -v a="$on_long" -v b="$on_short" 'BEGIN { printf "%.1f", a / b }')"
  }
  ask "kl status" status
  ask "kl runs" runs
  ask "kl runs, from the middle on" runs --before RUN
  ask "kl runs --state --actor" runs --state long --actor actor-3
  ask "kl runs --request" runs --request 7
  ask "kl runs --status failed (there is none)" runs --status failed
  ask "kl show" show RUN
  ask "kl explain" explain RUN
  ask "kl history" history long
  ask "kl history, from the middle on, with rows" history long --before SERIAL --rows
  ask "kl history --since 1d" history long --since 1d
  ask "kl history --address of an instance" history long --address 'terraform_data.r[7]'
  ask "kl history --address of a resource" history long --address terraform_data.r
  ask "kl history --address of a module" history long --address 'module.m.*'
  ask "kl history --address of an instance of a module" history long --address 'module.m["7"].*'
  ask "kl history --address of a resource in it" history long --address 'module.m["7"].terraform_data.r'
  ask "kl history --address of a module that never was" history long --address 'module.never.*'
  ask "kl blame" blame --dir long
  ask "kl blame, from the middle on" blame --dir long --after 'terraform_data.r[500]'
}

on SQLite sqlite "$work/long.db" "$work/short.db"
if [ -n "${KL_TEST_POSTGRES_URL:-}" ]; then
  make_database
  long=$made
  make_database
  on PostgreSQL postgres "$long" "$made"
else
  printf '\nPostgreSQL is not measured: KL_TEST_POSTGRES_URL is not set.\n'
fi
