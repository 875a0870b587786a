#!/usr/bin/env bash
# Checks what users put into their repositories, and this repository's own workflows, with the linters that they would
# use: the forges' schemas, security, syntax and style.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

tools="${CARGO_TARGET_DIR:-target}/test-fixtures/ci"
tests/ci/fetch.sh "$tools" || exit
if [ ! -s "$tools/venv.complete" ]; then
  echo "the workflows, the action and the GitLab template were not checked: $(cat "$tools/unavailable")"
  # Only where somebody reads this may it be left out.
  if [ -n "${CI:-}" ] && [ "$CI" != false ]; then exit 1; fi
  exit 0
fi
bin=$(cd "$tools/venv/bin" && pwd)

failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

check() {
  if ! "$@"; then
    printf 'FAILED: %s\n' "${*#"$bin/"}"
    failed=1
  fi
}

mapfile -t workflows < <(git ls-files '.github/workflows/*.yml' 'examples/github/*.yml')
mapfile -t pipelines < <(git ls-files 'examples/gitlab/*.yml')
# What `kl init` fills in is no YAML before that.
mapfile -t yaml < <(git ls-files '*.yml' '*.yaml' ':!src')

# The schema knows nothing of a header with inputs, and their places hold a value only once they are filled in.
sed -e '1,/^---$/d' -e 's/\$\[\[ *inputs\.[^]]*\]\]/1h/g' .gitlab-ci-template.yml >"$scratch/template.yml"

check "$bin/check-jsonschema" --builtin-schema vendor.github-actions action.yml
check "$bin/check-jsonschema" --builtin-schema vendor.github-workflows "${workflows[@]}"
check "$bin/check-jsonschema" --builtin-schema vendor.dependabot .github/dependabot.yml
check "$bin/check-jsonschema" --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci \
  "$scratch/template.yml" "${pipelines[@]}"
check "$bin/zizmor" --offline --no-progress --quiet --config tests/ci/zizmor.yml action.yml "${workflows[@]}"
check "$bin/yamllint" --strict --config-file tests/ci/yamllint.yml "${yaml[@]}"

# The same workflows with this action in its place: the linter then knows its inputs and outputs.
project="$scratch/project"
mkdir -p "$project/.git" "$project/.github/workflows"
cp action.yml "$project/"
for workflow in "${workflows[@]}"; do
  sed 's|uses: example/kl@.*|uses: ./|' "$workflow" >"$project/.github/workflows/${workflow//\//-}"
done
actionlint() { (cd "$project" && "$bin/actionlint" -no-color .github/workflows/*.yml); }
check actionlint

# The shell scripts in the template and the pipelines, each job's as the one script that GitLab makes of it.
shellscripts() {
  command -v shellcheck >/dev/null || return 0
  "$bin/python" tests/ci/scripts.py "$scratch/scripts" "$scratch/template.yml" "${pipelines[@]}" &&
    shellcheck --shell sh "$scratch/scripts"/*
}
check shellscripts

if [ "$failed" -gt 0 ]; then
  exit 1
fi
echo "workflows, action and template: ${#workflows[@]} workflows, ${#pipelines[@]} pipelines, ${#yaml[@]} files are clean"
