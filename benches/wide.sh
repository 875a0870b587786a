#!/usr/bin/env bash
# How long kl takes on a wide state, beside plain Terraform on the same machine in the same run:
#
#   ./benches/wide.sh                  10,000 resources: 100 modules (for_each) with 100 instances each, 5 of them changed
#   MODULES=20 SIZE=20 ./benches/wide.sh
#
# Afterwards CREATE new resources (1,000 unless it says otherwise) are made in one apply. Terraform writes its whole
# state for each of them, so this grows with the square of their number, with kl and without.
#
# kl is a release build; KL names another binary. The embedded SQLite database is measured, and PostgreSQL as well when
# KL_TEST_POSTGRES_URL names a server on which databases may be created. The state is made by this script and imported;
# the resources are Terraform's built-in terraform_data, so the network and providers play no part: what is measured is
# what kl adds. Each line says the wall time, kl's own processor time (without Terraform's), and the ratio to plain
# Terraform's wall time.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MODULES=${MODULES:-100}
SIZE=${SIZE:-100}
CHANGED=5
CREATE=${CREATE:-1000}

. benches/measure.sh
command -v python3 >/dev/null || fail "python3 is needed to write the state"

# ------------------------------------------------------------------------------ the configuration and its state

mkdir -p "$work/repo/.git" "$work/repo/wide/part" "$work/plain"
cat >"$work/repo/wide/main.tf" <<HCL
variable "generation" { default = 0 }
module "part" {
  source     = "./part"
  for_each   = toset([for i in range($MODULES) : format("m%03d", i)])
  name       = each.key
  size       = $SIZE
  # One resource in each of the first modules changes with the generation.
  generation = contains([for i in range($CHANGED) : format("m%03d", i)], each.key) ? var.generation : 0
}
HCL
cat >"$work/repo/wide/part/main.tf" <<'HCL'
variable "name" {}
variable "size" {}
variable "generation" {}
resource "terraform_data" "r" {
  count = var.size
  input = count.index == 7 ? "${var.name}-${count.index}-${var.generation}" : "${var.name}-${count.index}-0"
}
HCL
mkdir -p "$work/repo/fresh" "$work/plain-fresh"
cat >"$work/repo/fresh/main.tf" <<HCL
resource "terraform_data" "r" {
  count = $CREATE
  input = "r-\${count.index}"
}
HCL
python3 - "$MODULES" "$SIZE" >"$work/state.json" <<'PY'
import json, sys, uuid

modules, size = map(int, sys.argv[1:])

def instance(module, index):
    value = {"value": f"{module}-{index}-0", "type": "string"}
    attributes = {"id": str(uuid.uuid4()), "input": value, "output": value, "triggers_replace": None}
    return {"index_key": index, "schema_version": 0, "attributes": attributes, "sensitive_attributes": []}

def resource(module):
    return {
        "module": f'module.part["{module}"]',
        "mode": "managed", "type": "terraform_data", "name": "r",
        "provider": 'provider["terraform.io/builtin/terraform"]',
        "instances": [instance(module, index) for index in range(size)],
    }

state = {
    "version": 4, "terraform_version": "1.5.0", "serial": 1, "lineage": str(uuid.uuid4()), "outputs": {},
    "resources": [resource(f"m{number:03d}") for number in range(modules)], "check_results": None,
}
json.dump(state, sys.stdout)
PY

# ---------------------------------------------------------------------------------------------------- measuring

printf '%d resources, %d of them changed; %s\n\n' $((MODULES * SIZE)) "$CHANGED" "$("$terraform" version | head -n 1)"
row "" "wall s" "kl cpu s" "ratio"

cp -r "$work/repo/wide/." "$work/plain"
cp "$work/state.json" "$work/plain/terraform.tfstate"
began=$(now)
(cd "$work/plain" && "$terraform" init -input=false >/dev/null && "$terraform" plan -input=false -var generation=1 -out plan >/dev/null)
plain_plan=$(difference "$began" "$(now)")
row "terraform init + plan" "$plain_plan" - 1
began=$(now)
(cd "$work/plain" && "$terraform" apply -input=false plan >/dev/null)
plain_apply=$(difference "$began" "$(now)")
row "terraform apply" "$plain_apply" - 1
# kl plans again before it applies, in a fresh directory: this is what the same care costs with plain Terraform.
plain_both=$(awk -v a="$plain_plan" -v b="$plain_apply" 'BEGIN { print a + b }')
row "terraform init+plan+apply" "$plain_both" - 1

cp -r "$work/repo/fresh/." "$work/plain-fresh"
began=$(now)
(cd "$work/plain-fresh" && "$terraform" init -input=false >/dev/null &&
  "$terraform" plan -input=false -out plan >/dev/null && "$terraform" apply -input=false plan >/dev/null)
plain_create=$(difference "$began" "$(now)")
row "terraform creates $CREATE" "$plain_create" - 1

on() { # the name of the database, its address
  local name=$1 url=$2
  cd "$work/repo"
  "$KL" --database "$url" db migrate >/dev/null
  measure "$KL" --database "$url" state import "$work/state.json" --dir wide
  row "kl state import, $name" "$took" "$own" -
  measure "$KL" --database "$url" plan wide --var generation=1 --out "$work/spec.json"
  row "kl plan, $name" "$took" "$own" "$(ratio "$took" "$plain_plan")"
  measure "$KL" --database "$url" apply "$work/spec.json" --var generation=1
  row "kl apply, $name" "$took" "$own" "$(ratio "$took" "$plain_both")"
  grep -q "($CHANGED rows changed)" "$work/out" || fail "kl has not changed $CHANGED rows: $(cat "$work/out")"
  measure "$KL" --database "$url" plan wide --var generation=2 --out "$work/spec.json"
  measure "$KL" --database "$url" apply "$work/spec.json" --var generation=2 --lane footprint
  row "kl apply (footprint), $name" "$took" "$own" "$(ratio "$took" "$plain_both")"
  measure "$KL" --database "$url" state pull wide
  row "kl state pull, $name" "$took" "$own" -
  measure "$KL" --database "$url" apply fresh --auto-approve
  row "kl creates $CREATE, $name" "$took" "$own" "$(ratio "$took" "$plain_create")"
  # What kl made of it is what Terraform would have made: nothing is left to do.
  "$KL" --database "$url" state pull wide >"$work/plain/terraform.tfstate"
  (cd "$work/plain" && "$terraform" plan -input=false -detailed-exitcode -var generation=2 >/dev/null) ||
    fail "plain terraform would still change something"
}

on SQLite "$work/kl.db"
on_postgres on
