# What the demos have in common: finding the programs, a temporary place, and words for what is proved. Sourced by their
# run.sh, which sets -euo pipefail first.
# shellcheck shell=bash

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  printf 'demo: %s\n' "$*" >&2
  exit 1
}

terraform=${KL_TERRAFORM:-}
if [ -z "$terraform" ]; then
  terraform=$(command -v terraform || command -v tofu) ||
    fail "terraform is missing: install Terraform 1.4 or newer (https://developer.hashicorp.com/terraform/install) or OpenTofu 1.6 or newer (https://opentofu.org/docs/intro/install), so that it is on your PATH"
fi
command -v git >/dev/null || fail "git is missing: install it with your system's package manager"
if [ -z "${KL:-}" ]; then
  command -v cargo >/dev/null || fail "cargo is missing: install Rust from https://rustup.rs"
  echo "Building kl (the first time takes a few minutes) …"
  (cd "$repository" && cargo build --quiet)
  KL=$(cd "$repository" && cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/kl
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/kl-demo.XXXXXX")
finish() {
  # Applies that still run are asked to stop, and may put things in order before their directories go.
  # shellcheck disable=SC2046 # one argument a job
  kill $(jobs -p) 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

export KL_TERRAFORM=$terraform
export KL_DATABASE_URL=${KL_DATABASE_URL:-$work/kl.db}
# shellcheck disable=SC2034 # for the demo
state=demo-$$-$(date +%s) # a name of its own: the database may be a shared one

kl() { "$KL" "$@" --color never; }

# A value out of a JSON document: the first one with this name, without quotes.
value() { sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" | head -n "${2:-1}" | tail -n 1; }

bold='' green='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' green=$'\033[32m' plain=$'\033[0m'; fi
step() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
proved() { printf '  %s✓%s %s\n' "$green" "$plain" "$*"; }

prepare_database() {
  case $KL_DATABASE_URL in
  postgres*)
    kl db migrate >/dev/null
    echo "  database: PostgreSQL"
    ;;
  *) echo "  database: SQLite, in a file" ;;
  esac
}
