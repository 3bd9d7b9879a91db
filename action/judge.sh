#!/usr/bin/env bash
# The gate of action.yml: measure, judge, write the answer into a folder and say how it ended.
# Everything that people wrote comes in environment variables and is only ever used quoted.
# The folder is the pull request's: nothing in it is run by Python, by git or by a shell.
set -uo pipefail
export GIT_NO_LAZY_FETCH=1 GIT_TERMINAL_PROMPT=0 GIT_CONFIG_COUNT="${GIT_CONFIG_COUNT:-0}"
for setting in safe.bareRepository=explicit core.fsmonitor=false core.hooksPath=/dev/null \
  protocol.ext.allow=never; do
  export "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=${setting%%=*}"
  export "GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT=${setting#*=}"
  GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1))
done
# In a container the checkout is another user's, and it is what the workflow asks about.
export WORKBENCH_TRUST="$GITHUB_WORKSPACE"

folder="$RUNNER_TEMP/workbench-$NAME"
if [[ ! "$NAME" =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$ ]]; then
  echo "::error::the name of a gate may hold only letters, digits and . _ -"
  { echo status=error; echo exit-code=2; } >> "$GITHUB_OUTPUT"
  exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"

# What a compiler or a kernel prints is shown, and obeyed by nobody.
quietly() {
  local word code
  word="$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
  [[ ${#word} == 32 ]] || return 70
  echo "::stop-commands::$word"
  "$@" 2>&1 | tee -a "$folder/log.txt"
  code=${PIPESTATUS[0]}
  echo
  echo "::$word::"
  return "$code"
}

words=()
versions=()
read -r -a versions <<< "${VERSIONS//$'\n'/ }" || true
# A target says it all: study/version:problem, of which any part may be missing.
targets=()
for target in "${versions[@]:-$STUDY}"; do
  [[ -n "$STUDY" && "$target" != "$STUDY" && "$target" != *[/@.]* ]] && target="$STUDY/$target"
  [[ -n "$PROBLEM" && "$target" != *[:@.]* ]] && target+=":$PROBLEM"
  [[ -n "$target" ]] && targets+=("$target")
done

merge_base() {
  if [[ -z "${BASE_SHA//0/}" ]]; then
    echo "::error::this event has no merge base: set the input against" >&2
    return 2
  fi
  if [[ "$(git rev-parse --is-shallow-repository)" == true ]]; then
    git fetch --quiet --no-tags --unshallow origin >&2 || true
  fi
  git cat-file -e "$BASE_SHA^{commit}" 2> /dev/null \
    || git fetch --quiet --no-tags origin "$BASE_SHA" >&2 || true
  git merge-base "$BASE_SHA" HEAD || {
    echo "::error::the merge base is not in this checkout: check out with fetch-depth: 0" >&2
    return 2
  }
}

also=(--also "markdown=$folder/gate.md" --also "json=$folder/gate.json"
  --also "junit=$folder/gate.xml" --also "github=$folder/annotations.txt")
code=0
if [[ -n "$BASELINE" ]]; then
  every=()
  ((${#versions[@]})) || every=(--all --again)
  quietly workbench time "${words[@]}" "${every[@]}" -- "${targets[@]}" || code=$?
  [[ "$KEEP" == true ]] && words+=(--keep)
  # A job that is started again has the same number: its run takes the place of the first.
  words+=("--baseline=$BASELINE" "--run=${GITHUB_RUN_ID:-local}")
else
  [[ -n "$ENGINE" ]] && words+=("--engine=$ENGINE")
  [[ -n "$AGAINST" ]] || AGAINST="$(merge_base)" || code=$?
  words+=("--against=$AGAINST")
  [[ "${ACCEPT:-}" == true ]] && words+=(--accept)
fi
if ((code == 0)); then
  quietly workbench check "${words[@]}" "${also[@]}" -- "${targets[@]}" || code=$?
fi

# Who ends without a verdict has not passed: code that a study runs may end the process.
passed='import json, sys; sys.exit(json.load(open(sys.argv[1]))["status"] != "pass")'
if ((code == 0)) && ! python3 -I -c "$passed" "$folder/gate.json"; then
  code=70
fi
if [[ -s "$folder/annotations.txt" ]]; then
  cat "$folder/annotations.txt"
fi
if [[ ! -s "$folder/gate.md" ]]; then
  echo "**The gate could not be run** (exit code $code); the log of the job says why." > "$folder/gate.md"
fi
cat "$folder/gate.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"

case "$code" in
  0) status=pass ;;
  1) status=fail ;;
  6) status=inconclusive ;;
  *) status=error ;;
esac
{
  echo "status=$status"
  echo "exit-code=$code"
  echo "folder=$folder"
} >> "$GITHUB_OUTPUT"
