#!/usr/bin/env bash
# The step of action.yml that runs kl: inputs, which come as KL_INPUT_*, become arguments and variables, and kl takes
# this process over. Nothing of an input is ever read by a shell.

set -euo pipefail

# Exit code 3, as kl's own for wrong usage; the message is also an annotation.
refuse() {
  printf '::error title=kl::%s\n' "$*"
  exit 3
}

# Adds the lines of a text as arguments, each behind the flag if there is one.
lines() {
  local text=$1 flag=${2:-} line
  while IFS= read -r line || [ -n "$line" ]; do
    line=${line%$'\r'}
    [ -n "$line" ] || continue
    if [ -n "$flag" ]; then command+=("$flag"); fi
    command+=("$line")
  done <<<"$text"
}

# Adds what of the lines of a text says which database is meant and who acts: the apply's arguments, for what ends it.
shared() {
  local text=$1 line value_follows=
  while IFS= read -r line || [ -n "$line" ]; do
    line=${line%$'\r'}
    [ -n "$line" ] || continue
    if [ -n "$value_follows" ]; then
      command+=("$line")
      value_follows=
      continue
    fi
    case $line in
      --database | --actor) command+=("$line") value_follows=yes ;;
      --database=* | --actor=*) command+=("$line") ;;
    esac
  done <<<"$text"
}

# Passes an input on as a flag of the commands that have it; with another command it is a mistake worth stopping for.
flag() {
  local name=$1 value=$2 found
  shift 2
  [ -n "$value" ] || return 0
  for found in "$@"; do
    if [ "$found" = "$KL_INPUT_COMMAND" ]; then
      command+=("--$name" "$value")
      return
    fi
  done
  local IFS=/
  refuse "the input \`$name\` is for $*, and not for \`$KL_INPUT_COMMAND\`"
}

command=("$KL_PROGRAM")
case $KL_INPUT_COMMAND in
  plan | apply | check | finish) command+=(ci "$KL_INPUT_COMMAND") ;;
  projects) command+=(ci projects --format json) ;;
  refresh) command+=(refresh) ;;
  *) refuse "there is no command \`${KL_INPUT_COMMAND//[^a-z-]/?}\`: it is plan, apply, check, projects, refresh or finish" ;;
esac
if [ -n "$KL_INPUT_PROJECT" ]; then
  case $KL_INPUT_COMMAND in
    plan | apply | check) lines "$KL_INPUT_PROJECT" --project ;;
    *) refuse "the input \`project\` is for plan, apply and check, and not for \`$KL_INPUT_COMMAND\`" ;;
  esac
fi
flag request "$KL_INPUT_REQUEST" apply
flag wait "$KL_INPUT_WAIT" apply refresh finish
flag lease "$KL_INPUT_LEASE" apply refresh
flag timeout "$KL_INPUT_TIMEOUT" apply
lines "$KL_INPUT_ARGS"
shared "${KL_INPUT_ARGS_OF_APPLY:-}"

# An empty input leaves a variable of the job as it is.
if [ -n "$KL_INPUT_DATABASE_URL" ]; then export KL_DATABASE_URL=$KL_INPUT_DATABASE_URL; fi
if [ -n "$KL_INPUT_TOKEN" ]; then export KL_FORGE_TOKEN=$KL_INPUT_TOKEN; fi
if [ -n "$KL_INPUT_TERRAFORM" ]; then export KL_TERRAFORM=$KL_INPUT_TERRAFORM; fi
if [ -z "${KL_CHECK_RUN_ID:-}" ]; then unset KL_CHECK_RUN_ID; fi

cd -- "$KL_INPUT_WORKING_DIRECTORY" ||
  refuse "the input \`working-directory\` names no directory: is the repository checked out?"

# Secrets are in one variable each, and the program that Terraform starts need not see how kl was called.
unset "${!KL_INPUT_@}" KL_PROGRAM

if [ "${command[*]:1:2}" = "ci projects" ]; then
  # Its answer is for the next job; there is nothing that a signal could interrupt halfway.
  projects=$("${command[@]}")
  delimiter="kl-$RANDOM$RANDOM$RANDOM"
  printf 'projects<<%s\n%s\n%s\n' "$delimiter" "$projects" "$delimiter" >>"$GITHUB_OUTPUT"
  printf '%s\n' "$projects"
  exit 0
fi

exec "${command[@]}"
