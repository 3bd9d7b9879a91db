#!/usr/bin/env bash
# What was found once, tried again: a line each, `ok NAME`, `FAIL NAME` or `skip NAME`, and their number.
#
#   tests/attacks/reproductions/run.sh [WORKBENCH [SCRATCH]]
#
# WORKBENCH is the command that is tried (the checkout's .venv/bin/workbench), SCRATCH a folder that may be
# filled (a temporary one, which is removed). ONLY="names agents" runs some of the parts. Ends with 1 where
# anything fails. Everything is limited in time and memory: a version that has the faults harms no machine.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
REPO=$(cd "$here/../../.." && pwd -P)
WB=${1:-$REPO/.venv/bin/workbench}
WB=$(cd "$(dirname "$WB")" && pwd -P)/$(basename "$WB")
[ -x "$WB" ] || { echo "$WB is no command: make .venv/.dev" >&2; exit 2; }
# A command that cannot start does nothing wrong either, and about half of the lines would be `ok`.
timeout 60 "$WB" --version </dev/null >/dev/null || { echo "$WB does not start: make .venv/.dev" >&2; exit 2; }
if [ $# -gt 1 ]; then mkdir -p "$2" && scratch=$(cd "$2" && pwd -P) || exit 2
else scratch=$(mktemp -d) && trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT; fi
WBPY=$(dirname "$WB")/python
JUDGE=${JUDGE:-$REPO/action/judge.sh}
REPORT=$scratch/report.ncu-rep
"$WBPY" -P - "$REPO/tests/data/ncurep/sgemm_v3.ncu-rep.zst" "$REPORT" <<'P' || exit 2
import sys, zstandard
with open(sys.argv[1], "rb") as packed, open(sys.argv[2], "wb") as plain:
    zstandard.ZstdDecompressor().copy_stream(packed, plain)
P
export WB WBPY REPO REPORT JUDGE
ulimit -c 0
for part in ${ONLY:-folders names settings ceilings agents reports}; do
  echo "# $part"
  timeout -k 10 1200 bash "$here/$part.sh" "$scratch/$part" 2>>"$scratch/$part.err" </dev/null
done | tee "$scratch/said"
ok=$(grep -c '^ok ' "$scratch/said") failed=$(grep -c '^FAIL ' "$scratch/said") skipped=$(grep -c '^skip ' "$scratch/said")
echo "$ok ok, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$ok" -gt 0 ]
