#!/usr/bin/env bash
# How long plain Terraform takes on a state that kl keeps (`kl serve`, `kl exec`), beside Terraform's own `pg` backend on
# the same machine in the same run:
#
#   ./benches/backend.sh                 5,000 resources
#   SIZE=500 ./benches/backend.sh
#
# All resources are created in one apply, then five of them are changed, then a plan finds nothing to do. Terraform saves
# the whole state every 20 seconds while it applies, and at the end. The `pg` backend is measured when
# KL_TEST_POSTGRES_URL names a server on which databases may be created; else Terraform's local backend is what the others
# are compared with, which writes a file for each resource.
#
# kl is a release build; KL names another binary. Each line says the wall time, kl's own processor time (without
# Terraform's), and the ratio to the `pg` backend's wall time.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

SIZE=${SIZE:-5000}
. benches/measure.sh

mkdir -p "$work/main"
cat >"$work/main/main.tf" <<HCL
variable "generation" { default = 0 }
resource "terraform_data" "r" {
  count = $SIZE
  input = count.index < 5 ? "r-\${count.index}-\${var.generation}" : "r-\${count.index}"
}
HCL

printf '%d resources; %s\n\n' "$SIZE" "$("$terraform" version | head -n 1)"
row "" "wall s" "kl cpu s" "ratio"

declare -A base=() # the wall time of each step with the first backend
# Creates, changes and plans with a backend: its name, its block, and how Terraform is called.
with() {
  local name=$1 block=$2 step dir arguments
  local program=("${@:3}")
  dir=$(mktemp -d "$work/run.XXXXXX")
  mkdir "$dir/.git"
  cp "$work/main/main.tf" "$dir"
  printf 'terraform {\n  backend %s\n}\n' "$block" >"$dir/backend.tf"
  cd "$dir"
  "${program[@]}" init -input=false >/dev/null
  for step in create change plan; do
    case $step in
      create) arguments=(apply -auto-approve) ;;
      change) arguments=(apply -auto-approve -var generation=1) ;;
      # It fails when there is anything left to do.
      plan) arguments=(plan -detailed-exitcode -var generation=1) ;;
    esac
    measure "${program[@]}" "${arguments[@]}" -input=false
    : "${base[$step]:=$took}"
    # What runs is Terraform itself.
    case $name in "kl exec"*) ;; *) own=- ;; esac
    row "$step, $name" "$took" "$own" "$(ratio "$took" "${base[$step]}")"
  done
  cd - >/dev/null
}

if [ -n "${KL_TEST_POSTGRES_URL:-}" ]; then
  make_database
  # The driver of the pg backend prefers the host of an address to a socket's directory, and wants to hear of no TLS.
  address=$(sed -E '/[?&]host=\//s,@[^/]*/,@/,' <<<"$made")
  case $address in *\?*) address+="&sslmode=disable" ;; *) address+="?sslmode=disable" ;; esac
  with "terraform, pg" "\"pg\" { conn_str = \"$address\" }" "$terraform"
else
  with "terraform, local" '"local" {}' "$terraform"
fi

# Leaves in `server` the process of a server, and its address in TF_HTTP_ADDRESS and the like.
serve() { # the address of its database
  local url token
  token=$("$KL" --database "$1" token create bench --states bench --role write --expires-in 1h --quiet)
  "$KL" --database "$1" serve --color never --listen 127.0.0.1:0 2>"$work/server.log" &
  server=$!
  url=
  for _ in $(seq 100); do
    url=$(sed -n 's/^Listening on \(http:[^;]*\);.*/\1/p' "$work/server.log")
    [ -z "$url" ] || break
    sleep 0.1
  done
  [ -n "$url" ] || fail "the server does not listen: $(cat "$work/server.log")"
  url+=/states/bench
  export TF_HTTP_ADDRESS=$url TF_HTTP_LOCK_ADDRESS=$url TF_HTTP_UNLOCK_ADDRESS=$url
  export TF_HTTP_USERNAME=bench TF_HTTP_PASSWORD=$token
}

through_kl() { # the name of the database, its address
  local server
  "$KL" --database "$2" db migrate >/dev/null
  serve "$2"
  with "kl serve, $1" '"http" {}' "$terraform"
  kill "$server"
  wait "$server" || true
  unset TF_HTTP_ADDRESS TF_HTTP_LOCK_ADDRESS TF_HTTP_UNLOCK_ADDRESS TF_HTTP_USERNAME TF_HTTP_PASSWORD
  with "kl exec, $1" '"http" {}' "$KL" --database "$2" exec --state bench-exec -- "$terraform"
}
through_kl SQLite "$work/kl.db"
on_postgres through_kl
