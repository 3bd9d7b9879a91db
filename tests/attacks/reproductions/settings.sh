#!/usr/bin/env bash
# Whose settings are obeyed, and what ended with 70. Started by run.sh: WB.
. "$(dirname "${BASH_SOURCE[0]}")/head.sh"
# no_fault NAME COMMAND…: a documented exit code, and no word of an internal error
no_fault() {
  local name=$1 code; shift
  timeout 300 "$@" >"$scratch/out" 2>&1 </dev/null; code=$?
  if [ "$code" -le 6 ] && ! grep -q "internal error\|Traceback" "$scratch/out"; then say "$name" 0
  else say "$name" 1 "exit $code"; fi
}
fresh() { rm -rf "${scratch:?}/$1"; mkdir -p "$scratch/$1"; cd "$scratch/$1"; }

# --- whose settings ---------------------------------------------------------------------
# A repository below a folder with settings: those above its root are not its.
fresh above; echo 'default_study = "evil"' > workbench.toml; mkdir -p repo/deep
git init -q repo; cd repo/deep
if "$WB" list >"$scratch/out" 2>&1; then say "settings above a repository" 1 "obeyed"
elif grep -q "no workbench project" "$scratch/out"; then say "settings above a repository" 0
else say "settings above a repository" 1 "other words"; fi
fresh shelf; mkdir -p .workbench/captures repo/deep; git init -q repo; cd repo/deep
where=$("$WBPY" -c 'from workbench.programs.capture.capture_store import find_shelf; print(find_shelf().root)' 2>/dev/null)
case "$where" in "$scratch/shelf/repo") say "captures above a repository" 0 ;; *) say "captures above a repository" 1 "$where" ;; esac
fresh home; echo 'x = = nonsense' > workbench.toml; mkdir -p me/work; cd me/work
HOME="$scratch/home/me" "$WB" doctor >"$scratch/out" 2>&1; code=$?
if grep -q "not valid TOML" "$scratch/out"; then say "settings above the home folder" 1 "read"; else say "settings above the home folder" 0; fi
if [ "$(id -u)" = 0 ]; then
  fresh theirs; mkdir work; printf '[capture]\nbuild = "touch %s/pwned"\n' "$scratch" > workbench.toml
  chown 12345 workbench.toml; cd work
  if "$WB" check --all >"$scratch/out" 2>&1 || ! grep -q "belongs to another user" "$scratch/out"; then
    say "settings of another user" 1 "not refused"; else say "settings of another user" 0; fi
  grep -q "WORKBENCH_TRUST=" "$scratch/out"; say "its hint names the variable" $?
  fresh pushed; mkdir work; echo '[tool.workbench]' > pyproject.toml; chown 12345 pyproject.toml; cd work
  "$WB" list >"$scratch/out" 2>&1; grep -q "belongs to another user" "$scratch/out"; say "a pyproject.toml of another user" $?
  fresh caps; mkdir -p .workbench/captures/x work; chown -R 12345 .workbench; cd work
  "$WB" show @x >"$scratch/out" 2>&1; grep -q "belongs to another user" "$scratch/out"; say "captures of another user" $?
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
version=$(ls kernels/demo/v0*.cu); cp "$version" "$scratch/v0"
for size in 2**40 2**62; do
  sed "0,/^\[\[launch\]\]/s//[[scratch]]\nname = \"s\"\ndtype = \"float32\"\nshape = [\"$size\"]\n[[launch]]/" "$scratch/v0" > "$version"
  no_fault "scratch of $size elements" "$WB" verify demo/v0 --engine emulator
  grep -q "bytes; the limit" "$scratch/out"; say "its bytes and the limit are named" $?
done
sed '0,/__global__/s/extern "C"/extern "C" __device__ char big[4294967296ULL];\n&/; 0,/^{\|) {/s//&\n    if (!blockDim.x) big[threadIdx.x] = 1;/' "$scratch/v0" > "$version"
grep -q 'big\[' "$version" || say "the array could not be put in" 1
no_fault "a __device__ array of 4 GB under ulimit -v" bash -c "ulimit -v 4000000; \"$WB\" verify demo/v0 --engine emulator"
cd /; exit $failed
