#!/usr/bin/env bash
# Whose settings are obeyed, and what ended with 70. Started by run.sh: WB.
set -u
here=$(mkdir -p "$1" && cd "$1" && pwd -P)
: "${WB:?the workbench command}"
export XDG_CACHE_HOME="$here/cache"
unset WORKBENCH_TRUST WORKBENCH_CEILING
bad=0
say() { if [ "$1" = 0 ]; then echo "ok $2"; else echo "FAIL $2 (${3:-})"; bad=1; fi; }
# no_fault NAME COMMAND…: a documented exit code, and no word of an internal error
no_fault() {
  local name=$1 code; shift
  timeout 300 "$@" >"$here/out" 2>&1 </dev/null; code=$?
  if [ "$code" -le 6 ] && ! grep -q "internal error\|Traceback" "$here/out"; then say 0 "$name"
  else say 1 "$name" "exit $code"; fi
}
fresh() { rm -rf "${here:?}/$1"; mkdir -p "$here/$1"; cd "$here/$1"; }

# --- whose settings ---------------------------------------------------------------------
# A repository below a folder with settings: those above its root are not its.
fresh above; echo 'default_study = "evil"' > workbench.toml; mkdir -p repo/deep
git init -q repo; cd repo/deep
if "$WB" list >"$here/out" 2>&1; then say 1 "settings above a repository" "obeyed"
elif grep -q "no workbench project" "$here/out"; then say 0 "settings above a repository"
else say 1 "settings above a repository" "other words"; fi
fresh shelf; mkdir -p .workbench/captures repo/deep; git init -q repo; cd repo/deep
where=$(python3 -c 'import sys' ; "$(head -1 "$WB" | sed 's/^#!//')" -c 'from workbench.capture.shelf import find_shelf; print(find_shelf().root)' 2>/dev/null)
case "$where" in "$here/shelf/repo") say 0 "captures above a repository" ;; *) say 1 "captures above a repository" "$where" ;; esac
fresh home; echo 'x = = nonsense' > workbench.toml; mkdir -p me/work; cd me/work
HOME="$here/home/me" "$WB" doctor >"$here/out" 2>&1; code=$?
if grep -q "not valid TOML" "$here/out"; then say 1 "settings above the home folder" "read"; else say 0 "settings above the home folder"; fi
if [ "$(id -u)" = 0 ]; then
  fresh theirs; mkdir work; printf '[capture]\nbuild = "touch %s/pwned"\n' "$here" > workbench.toml
  chown 12345 workbench.toml; cd work
  if "$WB" check --all >"$here/out" 2>&1 || ! grep -q "belongs to another user" "$here/out"; then
    say 1 "settings of another user" "not refused"; else say 0 "settings of another user"; fi
  grep -q "WORKBENCH_TRUST=" "$here/out"; say $? "its hint names the variable"
  fresh pushed; mkdir work; echo '[tool.workbench]' > pyproject.toml; chown 12345 pyproject.toml; cd work
  "$WB" list >"$here/out" 2>&1; grep -q "belongs to another user" "$here/out"; say $? "a pyproject.toml of another user"
  fresh caps; mkdir -p .workbench/captures/x work; chown -R 12345 .workbench; cd work
  "$WB" show @x >"$here/out" 2>&1; grep -q "belongs to another user" "$here/out"; say $? "captures of another user"
fi

# --- what ended with 70 ----------------------------------------------------------------------
n=0
for text in 'tool = 3' $'[tool]\nworkbench = 3' '[[tool]]' '[[tool.workbench]]'; do
  n=$((n + 1)); fresh "toml$n"; printf '%s\n' "$text" > pyproject.toml; mkdir below
  no_fault "$(echo "$text" | tr '\n' ' ')" "$WB" list
  cd below; no_fault "$(echo "$text" | tr '\n' ' ') above" "$WB" doctor
done
fresh names; "$WB" init . >/dev/null 2>&1; "$WB" new --study demo >/dev/null 2>&1
long=$(printf 'n%.0s' $(seq 256)); path=$(printf 'd/%.0s' $(seq 2500))
no_fault "show of a long name" "$WB" show "$long.ncu-rep"
no_fault "show of a long path" "$WB" show "$path/x.ncu-rep"
no_fault "new of a long study" "$WB" new --study "v$long"
no_fault "check against a long name" "$WB" check --all --against "$long"
no_fault "report to a long name" "$WB" report --out "$long"
no_fault "export to a long name" "$WB" export launches --out "$long.csv"
no_fault "import of a long name" "$WB" import "$long.ncu-rep" --study demo --version v0
fresh huge; "$WB" init . >/dev/null 2>&1; "$WB" new --study demo >/dev/null 2>&1
version=$(ls kernels/demo/v0*.cu); cp "$version" "$here/v0"
for size in 2**40 2**62; do
  sed "0,/^\[\[launch\]\]/s//[[scratch]]\nname = \"s\"\ndtype = \"float32\"\nshape = [\"$size\"]\n[[launch]]/" "$here/v0" > "$version"
  no_fault "scratch of $size elements" "$WB" verify demo/v0 --engine emulator
  grep -q "bytes; the limit" "$here/out"; say $? "its bytes and the limit are named"
done
sed '0,/__global__/s/extern "C"/extern "C" __device__ char big[4294967296ULL];\n&/; 0,/^{\|) {/s//&\n    if (!blockDim.x) big[threadIdx.x] = 1;/' "$here/v0" > "$version"
grep -q 'big\[' "$version" || say 1 "the array could not be put in"
no_fault "a __device__ array of 4 GB under ulimit -v" bash -c "ulimit -v 4000000; \"$WB\" verify demo/v0 --engine emulator"
cd /; exit $bad
