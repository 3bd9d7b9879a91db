#!/usr/bin/env bash
# Children import nothing of the working folder, git runs nothing that a repository names, a dry run no file
# of a stranger's, the action's judge nothing of a pull request's folder. Started by run.sh: WB, WBPY, REPORT, JUDGE.
. "$(dirname "${BASH_SOURCE[0]}")/head.sh"
mark="$scratch/pwned"

fresh() { # an empty folder, which becomes the working folder, and an empty cache
  rm -rf "$scratch/case" "$scratch/cache" "$mark"
  mkdir -p "$scratch/case" "$scratch/cache"
  cd "$scratch/case" || exit 2
}
verdict() { # NAME: nothing of the folder may have run
  [[ ! -e "$mark" ]]; say "$1" $?
}
evil_py() { printf 'open(%s, "a").write(__name__)\nraise SystemExit(9)\n' "'$mark'" > "$1"; }
evil_sh() { printf '#!/bin/sh\necho x >> "%s"\nexit 1\n' "$mark" > "$1"; chmod +x "$1"; }
study() { # kernels/demo: a study, and a version that includes what is given
  mkdir -p kernels/demo
  echo 'default_study = "demo"' > workbench.toml
  cat > kernels/demo/study.py <<'P'
title = "Scale"
input_names = ("x",)
problems = {"n1000": {"N": 1000, "uses": ("verify", "profile")}}
tolerance = 1e-6
tolerance_why = "one rounding"
def inputs(problem, rng): return {"x": rng.random(problem["N"], dtype="float32")}
def outputs(problem): return {"y": ((problem["N"],), "float32")}
def reference(problem, inputs): return {"y": inputs["x"].astype("float64") * 2}
def flops(problem): return problem["N"]
def bytes(problem): return 8 * problem["N"]
P
  { cat <<'C'
/* ---
title = "Scale"
[[launch]]
kernel = "scale"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "y", "N"]
--- */
C
    for name in "$@"; do printf '#if 0\n#include "../../%s"\n#endif\n' "$name"; done
    echo 'extern "C" __global__ void scale(const float *x, float *y, int n) {'
    echo '    int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }'
  } > kernels/demo/v0_scale.cu
}

# --- 1: the working folder -----------------------------------------------------------------------
if [[ -n "${REPORT:-}" && -f "$REPORT" ]]; then
  for module in json contextlib msgspec; do
    for line in "show x.ncu-rep" "diff x.ncu-rep x.ncu-rep" "report x.ncu-rep"; do
      fresh
      cp "$REPORT" x.ncu-rep
      evil_py "$module.py"
      $WB $line > out.txt 2>&1
      verdict "folder/$module.py/${line%% *}"
    done
  done
else
  echo "skip folder/*: set REPORT"
fi

# Files that a kernel includes are copied into the folder of the compiler's child. With nvcc there
# is no such child of ours: NVRTC is asked for by name, through the package itself.
if [[ -n "${WBPY:-}" ]]; then
  for compiler in nvrtc; do
    fresh
    study json.py contextlib.py
    cat > ../build.py <<'P'
import sys
from pathlib import Path
from workbench.compile.build import build
from workbench.project import require_project
from workbench.study.folder import load_study
project = require_project(Path.cwd())
build(project, load_study(project, "demo").version("v0"), "sm_90", compiler=sys.argv[1])
P
    evil_py json.py
    evil_py contextlib.py
    $WBPY -P ../build.py $compiler > out.txt 2>&1
    grep -q "no $compiler" out.txt && echo "skip folder/include/$compiler" || verdict "folder/include/$compiler"
  done
else
  echo "skip folder/include: set WBPY, the Python that has the package"
fi

# The Action's own script, in the folder of a pull request.
if [[ -n "${JUDGE:-}" ]]; then
  for module in secrets hmac base64; do
    fresh
    evil_py $module.py
    mkdir ../bin; printf '#!/bin/sh\nexit 0\n' > ../bin/workbench; chmod +x ../bin/workbench
    PATH="$scratch/bin:$PATH" RUNNER_TEMP="$scratch/cache" NAME=gate STUDY= PROBLEM= VERSIONS= \
      AGAINST=HEAD BASELINE= KEEP= ENGINE= BASE_SHA= GITHUB_OUTPUT="$scratch/cache/output" \
      bash "$JUDGE" > out.txt 2>&1
    rm -rf ../bin
    verdict "judge/$module.py"
  done
else
  echo "skip judge/*: set JUDGE"
fi

# --- 2: repositories that attack git -------------------------------------------------------------
hash=0123456789012345678901234567890123456789
bare() { # ordinary files that make the working folder a repository, which has to fetch its commit
  mkdir -p objects refs/heads
  echo $hash > HEAD
  evil_sh evil.sh
  cat > config
}
attack() { # NAME: every command that takes a revision
  local line
  for line in "show @HEAD" "show x.ncu-rep --source HEAD" "diff @HEAD @HEAD~1" "report @HEAD @HEAD~1" \
      "diff x.ncu-rep x.ncu-rep --source HEAD" "capture --at HEAD -- true" \
      "capture -- true" "check --against HEAD"; do
    rm -f "$mark"
    $WB $line > out.txt 2>&1
    verdict "$1/${line// /_}"
  done
  rm -f "$mark"
  printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}' \
    '{"jsonrpc":"2.0","method":"notifications/initialized"}' \
    '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"show","arguments":{"version":"@HEAD"}}}' \
    '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"diff","arguments":{"old":"@HEAD","new":"@HEAD~1"}}}' \
    > calls.txt
  : > out.txt
  # The end of its input would end it: that comes when both calls are answered.
  { cat calls.txt; for _ in $(seq 600); do grep -q '"id":3' out.txt && break; sleep 0.1; done; } \
    | timeout 90 $WB mcp > out.txt 2>&1
  grep -q '"id":3' out.txt || say "$1/mcp" 1 "no answer"
  verdict "$1/mcp"
}
fresh
study
bare <<'C'
[core]
	repositoryformatversion = 1
	bare = false
	worktree = .
	sshCommand = "sh ./evil.sh"
[extensions]
	partialClone = origin
[remote "origin"]
	url = ssh://nobody.invalid/x
	promisor = true
C
[[ -n "${REPORT:-}" ]] && cp "$REPORT" x.ncu-rep
attack "bare clone"

# The same as a folder's own repository, as an archive would bring it, by other protocols.
for remote in ssh ext file; do
  fresh
  study
  mkdir .git && cd .git
  case $remote in
    ssh) words='url = ssh://nobody.invalid/x' ;;
    ext) words='url = "ext::sh ./evil.sh"' ;;
    file) words="url = $scratch/case"$'\n'"uploadpack = sh ./evil.sh" ;;
  esac
  bare <<C
[core]
	repositoryformatversion = 1
	sshCommand = "sh ./evil.sh"
[protocol]
	allow = always
[protocol "ext"]
	allow = always
[protocol "ssh"]
	allow = always
[protocol "file"]
	allow = always
[extensions]
	partialClone = origin
[remote "origin"]
$words
	promisor = true
C
  cd ..
  evil_sh evil.sh
  [[ -n "${REPORT:-}" ]] && cp "$REPORT" x.ncu-rep
  attack "clone/$remote"
done

# --- 3: what is not to run -----------------------------------------------------------------------
fresh
study
cat > kernels/demo/v1_triton.py <<P
"""---
title = "Triton"
[[launch]]
kernel = "scale"
grid = ["cdiv(N, 256)"]
num_warps = 4
args = ["x", "y", "N"]
---
"""
open("$mark", "a").write("x")
import triton
import triton.language as tl
@triton.jit
def scale(x: "*fp32", y: "*fp32", n: "i32"):
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    tl.store(y + i, 2 * tl.load(x + i, i < n), i < n)
P
$WB verify v0 --engine emulator > out.txt 2>&1 # from here on the study is known without being run
rm -f "$mark"
$WB profile v1 --dry-run --arch sm_90 > out.txt 2>&1
verdict "dry-run/triton"

# --- 11: a repository's settings that name programs ----------------------------------------------
hostile() { # a real repository with a commit, whose settings are then made hostile
  fresh
  study
  git init -q . && git config user.name x && git config user.email x@y.invalid
  echo '*.cu filter=evil diff=evil' > .gitattributes
  echo '*.py filter=a=b diff=evil' >> .gitattributes
  git add -A && git commit -qm one
  evil_sh evil.sh
  mkdir -p hooks
  for hook in post-checkout post-index-change reference-transaction pre-auto-gc fsmonitor-watchman; do
    evil_sh hooks/$hook; evil_sh .git/hooks/$hook
  done
  cat >> .git/config <<C
[core]
	fsmonitor = ./evil.sh
	hooksPath = $1
	pager = ./evil.sh
	editor = ./evil.sh
[include]
	path = ../more.config
[diff]
	external = ./evil.sh
[diff "evil"]
	command = ./evil.sh
	textconv = ./evil.sh
[hook "mine"]
	command = $scratch/case/evil.sh
	event = post-checkout
	event = post-index-change
	event = reference-transaction
C
  cat > more.config <<C
[filter "evil"]
	clean = $scratch/case/evil.sh
	smudge = $scratch/case/evil.sh
	process = $scratch/case/evil.sh
	required = true
[filter "a=b"]
	clean = $scratch/case/evil.sh
	smudge = $scratch/case/evil.sh
	required = true
C
  touch kernels/demo/* .gitattributes
  echo '// changed' >> kernels/demo/v0_scale.cu
}
cat > "$scratch/state.py" <<'P'
from pathlib import Path
from workbench.revisions import state_of
print(state_of(Path.cwd()).patch_sha256)
P
for hooks in hooks .git/hooks; do
  for line in "$WB capture --at HEAD -- true" "$WB check --against HEAD --engine emulator" \
      ${WBPY:+"$WBPY -P ../state.py"}; do # what `capture` asks, which needs a GPU to get as far
    hostile $hooks
    $line > out.txt 2>&1
    words="${line##*/}"
    verdict "settings/$hooks/${words// /_}"
  done
done
exit $failed
