#!/usr/bin/env bash
# Two engineers change two modules of one Terraform state at the same time, and both commit.
#
#   ./examples/parallel-apply-demo/run.sh
#
# Runs on the embedded SQLite database, or on PostgreSQL when KL_DATABASE_URL says so. Everything happens in a temporary
# directory. KL names a kl binary to use instead of building one.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../demo.sh
. "$here/../demo.sh"

now() { date +%s%N | cut -c1-13; } # milliseconds
seconds() { printf '%d.%d s' $(($1 / 1000)) $(($1 % 1000 / 100)); }

# ------------------------------------------------------------------------------------------------ the story

step "1. One state with three modules: network, web, db. web and db read network."
prepare_database
mkdir "$work/main"
cp -R "$here/fixture/." "$work/main"
git -C "$work/main" init --quiet
kl apply "$work/main" --state "$state" --actor platform --auto-approve --quiet >/dev/null
proved "serial $(kl history "$work/main" --state "$state" --format json | value serial) is committed"

step "2. alice changes the web module, bob changes the db module, each on a branch; both plan."
for who in alice bob carol; do cp -R "$work/main" "$work/$who"; done
version() { # a branch's change: VERSION of MODULE
  sed "s/version = \"[0-9]*\"/version = \"$3\"/" "$work/$1/modules/$2/main.tf" >"$work/edited"
  cat "$work/edited" >"$work/$1/modules/$2/main.tf"
}
version alice web 2
version bob db 2
version carol web 3
for who in alice bob carol; do
  kl plan "$work/$who" --state "$state" --actor "$who" --out "$work/$who.json" --quiet >"$work/$who.plan"
done
sed -n '/^Writes/,/^$/p;/^Reads/,/^$/p' "$work/alice.plan" | sed 's/^/  alice: /;/: *$/d'
sed -n '/^Writes/,/^$/p;/^Reads/,/^$/p' "$work/bob.plan" | sed 's/^/  bob:   /;/: *$/d'

step "3. Both are merged, and both jobs apply at the same time."
began=$(now)
kl apply "$work/alice.json" --dir "$work/alice" --actor alice --format json >"$work/alice.result" 2>"$work/alice.log" &
alice=$!
kl apply "$work/bob.json" --dir "$work/bob" --actor bob --format json >"$work/bob.result" 2>"$work/bob.log" &
bob=$!

# Both hold their reservations before carol comes.
for _ in $(seq 300); do
  kl status --state "$state" --format json >"$work/status"
  [ "$(grep -c '"status": "applying"' "$work/status")" -lt 2 ] || break
  kill -0 "$alice" 2>/dev/null || break
  sleep 0.1
done
[ "$(grep -c '"status": "applying"' "$work/status")" -eq 2 ] || fail "the two runs did not overlap"
proved "both runs apply at this moment, on the same state"

step "4. Meanwhile carol wants module.web, too."
set +e
kl apply "$work/carol.json" --dir "$work/carol" --actor carol >"$work/carol.result" 2>"$work/carol.log"
code=$?
set -e
grep -v '^·' "$work/carol.log" | sed 's/^/  │ /'
[ "$code" -eq 2 ] || fail "carol's apply ended with $code, not with 2 (reservation conflict)"
grep -q 'module.web.terraform_data.site (write) is held by alice' "$work/carol.log" || fail "the conflict does not name the holder and the pattern"
grep -q 'expires in' "$work/carol.log" || fail "the conflict does not say when the reservation expires"
proved "exit code 2: the message names the pattern, the holder and the expiry; nothing was changed"

wait "$alice" || { cat "$work/alice.log"; fail "alice's apply failed"; }
wait "$bob" || { cat "$work/bob.log"; fail "bob's apply failed"; }
parallel=$(($(now) - began))

step "5. What the database says"
for who in alice bob; do
  kl show "$(value run <"$work/$who.result")" --format json >"$work/$who.run"
done
fact() { value "$2" <"$work/$1.run"; }
for who in alice bob; do
  printf '  %-6s serial %s, from %s to %s\n' "$who:" "$(fact $who result_serial)" "$(fact $who started_at)" "$(fact $who ended_at)"
done
# Times in this form sort like texts.
[[ $(fact alice started_at) < $(fact bob ended_at) && $(fact bob started_at) < $(fact alice ended_at) ]] ||
  fail "the run windows do not overlap"
proved "the two run windows overlap in time"
distance=$(($(fact alice result_serial) - $(fact bob result_serial)))
[ "${distance#-}" -eq 1 ] || fail "the serials are not consecutive"
proved "the serials are consecutive"
kl state show module.web.terraform_data.site --dir "$work/main" --state "$state" | grep -q 'web-v2' || fail "alice's change is not in the state"
kl state show module.db.terraform_data.instance --dir "$work/main" --state "$state" | grep -q 'db-v2' || fail "bob's change is not in the state"
kl state show output.site_url --dir "$work/main" --state "$state" | grep -q 'web-v2' || fail "alice's output is not in the state"
kl state show output.db_endpoint --dir "$work/main" --state "$state" | grep -q 'db-v2' || fail "bob's output is not in the state"
proved "both write sets landed, with their outputs"

step "6. What plain terraform says of the result"
version main web 2
version main db 2
mkdir "$work/plain"
cp -R "$work/main/." "$work/plain"
kl state pull "$work/main" --state "$state" >"$work/plain/terraform.tfstate"
(
  cd "$work/plain"
  "$terraform" init -input=false >/dev/null
  "$terraform" plan -input=false -detailed-exitcode -no-color >"$work/plain.log"
) || { cat "$work/plain.log"; fail "plain terraform sees changes in the pulled state"; }
proved "terraform plan: no changes"

step "7. The same work, one after the other"
version alice web 4
version bob db 4
version alice db 2
version bob web 2
kl plan "$work/alice" --state "$state" --actor alice --target module.web --out "$work/alice.json" --quiet >/dev/null
kl plan "$work/bob" --state "$state" --actor bob --target module.db --out "$work/bob.json" --quiet >/dev/null
began=$(now)
for who in alice bob; do
  kl apply "$work/$who.json" --dir "$work/$who" --actor "$who" --quiet >/dev/null
done
serial=$(($(now) - began))
printf '  at the same time:    %s\n' "$(seconds "$parallel")"
printf '  one after the other: %s\n' "$(seconds "$serial")"

step "Proved: two changes of one state ran at the same time, both committed, and a third was kept out by name."
