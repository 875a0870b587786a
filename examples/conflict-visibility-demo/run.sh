#!/usr/bin/env bash
# What kl says of changes that meet: an independent one, one of what a plan reads, one of what it writes, one that turns
# out not to matter, and two at the same time.
#
#   ./examples/conflict-visibility-demo/run.sh
#
# Runs on the embedded SQLite database, or on PostgreSQL when KL_DATABASE_URL says so. Everything happens in a temporary
# directory. KL names a kl binary to use instead of building one.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../demo.sh
. "$here/../demo.sh"

gate=$work/gate

# Runs kl as somebody, in their checkout; the output goes to $work/said, the exit code to $code.
as() {
  local who=$1
  shift
  set +e
  (cd "$work/$who" && kl "$@") >"$work/said" 2>&1
  code=$?
  set -e
}

# That the last command ended so.
ended() { [ "$code" -eq "$1" ] || { cat "$work/said"; fail "exit code $code, and not $1: $2"; }; }

# That the last command said this, and shows the line.
says() {
  grep -F -m 1 -- "$1" "$work/said" >"$work/line" || { cat "$work/said"; fail "it did not say: $1"; }
  sed 's/^ */  │ /' "$work/line"
}

# A branch's change: in main.tf, one text for another.
edit() {
  grep -q -F -- "$2" "$work/$1/main.tf" || fail "$1's main.tf has no $2"
  sed "s|$2|$3|" "$work/$1/main.tf" >"$work/edited"
  cat "$work/edited" >"$work/$1/main.tf"
}

# Somebody plans a target, on top of what is merged.
plan() {
  as "$1" plan . --state "$state" --actor "$1" --target "terraform_data.$2" --var "gate=$gate" --out "$work/$1.json"
  ended 0 "$1's plan"
}

apply() {
  local who=$1
  shift
  as "$who" apply "$work/$who.json" --dir . --actor "$who" --var "gate=$gate" "$@"
}

# The last run of somebody.
last() { kl runs --state "$state" --actor "$1" --limit 1 --format json | value run; }

# ------------------------------------------------------------------------------------------------ the story

step "One state: the web servers read the network; the database stands alone."
prepare_database
for who in platform alice bob; do
  mkdir "$work/$who"
  cp -R "$here/fixture/." "$work/$who"
  git -C "$work/$who" init --quiet
done
as platform apply . --state "$state" --actor platform --auto-approve --var "gate=$gate"
ended 0 "the first apply"
proved "serial 1 is committed"

step "1. An independent change: alice plans the web servers, bob changes the database meanwhile."
edit alice 'version = "1"' 'version = "2"'
plan alice web
edit bob 'size = "1"' 'size = "2"'
plan bob database
apply bob
ended 0 "bob's apply"
as alice history --since-plan "$work/alice.json"
says "✓ The plan still holds: nothing that it reads or writes has changed"
says "✓ outside"
apply alice
ended 0 "alice's apply"
as alice explain "$(last alice)"
says "✓ Changed since the plan, outside of what it reads and writes: terraform_data.database (serial 2 by bob)"
says "✓ Planned again: identical"
says "✓ Committed exactly what was planned"
proved "calm: bob's version came in between, and kl says why that does not matter"

step "2. A change of what a plan reads: bob changes the network after alice has planned the web servers."
edit alice 'version = "2"' 'version = "3"'
plan alice web
edit bob 'owner = "platform"' 'owner = "bob"'
plan bob network
apply bob
ended 0 "bob's apply"
apply alice
ended 4 "alice's apply is refused as stale"
says "it reads terraform_data.network: changed in serial 4 by bob"
as alice history --since-plan "$work/alice.json"
says "! The plan no longer holds as it was reviewed: changed are 0 rows that it writes, 1 that it reads"
says "! it reads"
as alice explain "$(last alice)"
says "it reads terraform_data.network: changed in serial 4 by bob"
says "nothing was committed"
proved "loud: refused with exit code 4, before anything was touched, and the row, the version and bob are named"

step "3. The same plan, revalidated: what bob changed is nothing that the web servers use."
edit alice 'owner = "platform"' 'owner = "bob"' # alice's branch is merged on top of his
apply alice --on-stale revalidate
ended 0 "alice's apply, revalidated"
as alice explain "$(last alice)"
says "! Changed since the plan: terraform_data.network (serial 4 by bob); planning again decides"
says "✓ Revalidated: planned again on what had changed, the plan still holds (identical)"
as alice history . --state "$state" --limit 1
says "revalidated"
proved "kl planned again on the changed network, and the plan was the reviewed one"

step "4. A change of what a plan writes: bob resizes the database after alice has planned to."
edit alice 'size = "1"' 'size = "4"'
plan alice database
edit bob 'size = "2"' 'size = "3"'
plan bob database
apply bob
ended 0 "bob's apply"
apply alice
ended 4 "alice's apply is refused as stale"
says "it writes terraform_data.database: changed in serial 6 by bob"
apply alice --on-stale revalidate
ended 4 "planning again makes another plan of it"
says "terraform_data.database: other values of input"
as alice explain "$(last alice)"
says "! Planned again: values differ"
proved "loud: planning again gives other values than those that were reviewed, so a person has to look"

step "5. Two at the same time: alice rolls out, and bob wants the same."
edit alice 'triggers_replace = "1"' 'triggers_replace = "2"'
edit bob 'triggers_replace = "1"' 'triggers_replace = "3"'
plan alice rollout
plan bob rollout
: >"$gate"
(cd "$work/alice" && kl apply "$work/alice.json" --dir . --actor alice --var "gate=$gate") >"$work/alice.log" 2>&1 &
alice=$!
for _ in $(seq 300); do
  kl status --state "$state" --format json >"$work/status"
  ! grep -q '"status": "applying"' "$work/status" || break
  kill -0 "$alice" 2>/dev/null || { cat "$work/alice.log"; fail "alice's apply ended too early"; }
  sleep 0.1
done
as bob forecast "$work/bob.json"
says "! An apply that started now would be refused"
says "✗ both write the same rows"
apply bob
ended 2 "bob's apply meets alice's reservation"
says "terraform_data.rollout (write) is held by alice"
as bob status --state "$state"
says "reserved by alice"
rm "$gate"
wait "$alice" || { cat "$work/alice.log"; fail "alice's apply failed"; }
as bob explain "$(last bob)"
says "Refused: "
says "terraform_data.rollout (write) is held by alice"
says "Ended as conflict"
proved "loud: exit code 2 names the pattern and the holder; the record keeps what stood in the way"

step "6. The aftermath: alice's version is there, bob plans again."
as bob history --since-plan "$work/bob.json"
says "! it writes"
plan bob rollout
apply bob
ended 0 "bob's second try"
as bob history . --state "$state" --address terraform_data.rollout
says "bob"
as bob blame terraform_data.rollout --dir . --state "$state"
says "bob"
as bob runs --state "$state" --status conflict
says "! conflict"
proved "bob's change is in the state, on top of alice's, and the conflict stays on record"

step "Proved: independence is calm, invalidation is loud, and every answer comes from the database."
