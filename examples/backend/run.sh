#!/usr/bin/env bash
# Plain Terraform keeps its state in kl: a server with TLS and tokens, and a configuration that uses it.
#
#   ./examples/backend/run.sh
#
# Runs on the embedded SQLite database, or on PostgreSQL when KL_DATABASE_URL says so. Everything happens in a temporary
# directory. KL names a kl binary to use instead of building one.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../demo.sh
. "$here/../demo.sh"
command -v openssl >/dev/null || fail "openssl is missing: it makes the certificate; install it with your system's package manager"

prefix=backend-$$-$(date +%s) # names of its own: the database may be a shared one
state=$prefix/web

# ------------------------------------------------------------------------------------------------ the story

step "1. A certificate for 127.0.0.1, and two tokens"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=kl \
  -addext subjectAltName=IP:127.0.0.1 -keyout "$work/key.pem" -out "$work/cert.pem" 2>"$work/openssl.log" ||
  fail "openssl made no certificate: $(cat "$work/openssl.log")"
prepare_database
# A token is printed once, on standard output, and kept only as a digest.
writer=$(kl token create "$prefix-ci" --states "$prefix/*" --role write --expires-in 1h --quiet)
reader=$(kl token create "$prefix-reader" --states "$prefix/*" --role read --expires-in 1h --quiet)
# In files, because everybody may read what a program is called with.
printf '%s\n' "${writer##*_}" "${reader##*_}" >"$work/secrets"
if kl token list --format json | grep -q -F -f "$work/secrets"; then fail "the list shows a token"; fi
proved "the list shows what they open, and never the tokens themselves"

step "2. The server"
"$KL" serve --color never --listen 127.0.0.1:0 --tls-cert "$work/cert.pem" --tls-key "$work/key.pem" 2>"$work/server.log" &
server=$!
origin=
for _ in $(seq 300); do
  origin=$(sed -n 's/^Listening on \(https:[^;]*\);.*/\1/p' "$work/server.log")
  [ -z "$origin" ] || break
  kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat "$work/server.log")"
  sleep 0.1
done
[ -n "$origin" ] || fail "the server does not listen: $(cat "$work/server.log")"
proved "it listens at $origin"

step "3. Plain Terraform"
address=$origin/states/${state//\//%2F}
export TF_HTTP_ADDRESS=$address TF_HTTP_LOCK_ADDRESS=$address TF_HTTP_UNLOCK_ADDRESS=$address
export TF_HTTP_USERNAME=ci TF_HTTP_PASSWORD=$writer
TF_HTTP_CLIENT_CA_CERTIFICATE_PEM=$(cat "$work/cert.pem")
export TF_HTTP_CLIENT_CA_CERTIFICATE_PEM
cp -R "$here/configuration" "$work/configuration"
tf() { "$terraform" -chdir="$work/configuration" "$@"; }
tf init -input=false -no-color >"$work/init.log" 2>&1 || fail "init: $(cat "$work/init.log")"
tf apply -auto-approve -input=false -no-color >"$work/apply.log" 2>&1 || fail "apply: $(cat "$work/apply.log")"
tf apply -auto-approve -input=false -no-color -var release=2 >"$work/apply.log" 2>&1 || fail "apply: $(cat "$work/apply.log")"
[ "$(tf output -raw web)" = "release 2 in 10.0.0.0/16" ] || fail "the output is not what was applied"
[ ! -e "$work/configuration/terraform.tfstate" ] || fail "the state is in a file"
proved "init and two applies, with the state behind the server"
tf plan -detailed-exitcode -input=false -no-color -var release=2 >/dev/null || fail "there is something left to plan"
proved "terraform plan: no changes"

step "4. A token that may only read"
code=0
TF_HTTP_PASSWORD=$reader tf apply -auto-approve -input=false -no-color -var release=3 >"$work/refused.log" 2>&1 || code=$?
[ "$code" -eq 1 ] || fail "the reader's apply ended with $code"
grep -A 3 'refused-by-kl' "$work/refused.log" | sed 's/^/  │ /'
# Terraform wraps what it shows.
tr -s '\n ' '  ' <"$work/refused.log" | grep -q 'may only read' || fail "the refusal does not say why: $(cat "$work/refused.log")"
[ "$(TF_HTTP_PASSWORD=$reader tf output -raw web)" = "release 2 in 10.0.0.0/16" ] || fail "the reader cannot read"
proved "it reads; its apply is refused before anything happens, and Terraform shows why"

step "5. What kl knows of it"
mkdir "$work/empty"
cd "$work/empty"
kl history . --state "$state" | sed 's/^/  /'
kl history . --state "$state" | grep -q "$prefix-ci" || fail "the history does not name the token"
proved "every apply is a version, by the name of its token"

step "6. A token that is revoked, and the end"
kl token revoke "$prefix-ci" >/dev/null
code=0
tf plan -input=false -no-color >"$work/refused.log" 2>&1 || code=$?
[ "$code" -eq 1 ] || fail "a revoked token still opens the state"
proved "a revoked token opens nothing, at once"
kl token revoke "$prefix-reader" >/dev/null
kill "$server"
wait "$server" || fail "the server ended with $?: $(cat "$work/server.log")"
if grep -q -F -f "$work/secrets" "$work/server.log"; then fail "a token is in the server's log"; fi
proved "the server answered what had begun, and ended with 0; no token is in its log"
