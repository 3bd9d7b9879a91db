#!/usr/bin/env bash
# `mcp` reads nothing outside of the project; a command has totals. Started by run.sh: WB.
. "$(dirname "${BASH_SOURCE[0]}")/head.sh"
ulimit -v 6000000
cat > "$scratch/make.py" <<'P'
import pathlib, sys
kind, root = sys.argv[1], pathlib.Path(sys.argv[2])
s = root / "kernels" / "s"; s.mkdir(parents=True)
(root / "workbench.toml").write_text('default_study = "s"\n')
(s / "study.py").write_text('''title = "y = 2x"
input_names = ("x",)
problems = {"n7": {"n": 7, "uses": ("verify", "profile")}}
tolerance = 1e-6
tolerance_why = "exact"
def inputs(problem, rng): return {"x": rng.standard_normal(problem["n"], dtype="float32")}
def outputs(problem): return {"y": ((problem["n"],), "float32")}
def reference(problem, inputs): return {"y": 2 * inputs["x"].astype("float64")}
def flops(problem): return problem["n"]
def bytes(problem): return 8 * problem["n"]
''')
HEAD = '''/* ---
title = "One"
%s
[[launch]]
kernel = "scale"
grid = ["cdiv(n, 256)"]
block = [256]
args = ["x", "y", "n"]
--- */
'''
CODE = 'extern "C" __global__ void scale(const float* x, float* y, int n) {\n  int i = blockIdx.x * 256 + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n'
v0 = s / "v0.cu"; v0.write_text(HEAD % "" + CODE)
if kind == "links":
    (s / "big.cuh").write_text(("// " + "x" * 76 + "\n") * ((8 << 20) // 80 - 1))
    for n in range(400): (s / f"h{n}.cuh").symlink_to("big.cuh")
    v0.write_text(HEAD % "" + "".join(f'#include "h{n}.cuh"\n' for n in range(400)) + CODE)
if kind == "lines":
    import itertools, string
    names = itertools.islice(itertools.product(string.ascii_letters, repeat=4), 400000)
    (s / "l.cuh").write_text("".join('#include "%s"\n' % "".join(x) for x in names))
    for n in range(10): (s / f"v{n}.cu").write_text(HEAD % "" + '#include "l.cuh"\n' + CODE)
if kind == "ptx":
    import msgspec
    from workbench.model import Build, Device, Launch, Profile
    from workbench.store import Store
    line = "    // a line of PTX that says nothing at all, over and over again\n"
    p = Profile(engine="ncu", device=Device(name="H200", slug="h200"), captured="2026-01-01T00:00:00Z",
        study="s", version="v0", problem="n7", launches=(Launch(kernel="scale", index=0),),
        build=Build(compiler="nvcc", arch="sm_90", ptx=line * (15_800_000 // len(line))))
    path = pathlib.Path(Store(root / "profiles").save(p)); data = path.read_bytes()
    for n in range(1, 300):
        f = path.parent.parent / f"v{n}"; f.mkdir(); (f / path.name).write_bytes(data)
        (s / f"v{n}.cu").write_text(v0.read_text())
P
cat > "$scratch/ask.py" <<'P'
import json, os, pathlib, subprocess, sys
wb, root, head, text = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4].encode().decode("unicode_escape")
plain = (root / "kernels/s/v0.cu").read_text()
front, mark, code = plain.partition("--- */\n")
if head: front = front.replace("\n", f"\n{head}\n", 1)
full = front + mark + text + "\n" + code
p = subprocess.Popen([wb, "mcp", "--allow", "verify,write"], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
n = 0
def ask(method, **params):
    global n; n += 1
    p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}) + "\n"); p.stdin.flush()
    while True:
        line = p.stdout.readline()
        if not line: return ""
        if json.loads(line).get("id") == n: return line
out = ask("initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={"name": "x", "version": "1"})
p.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'); p.stdin.flush()
for name, given in (("new_version", {"version": "v9", "parent": "v0", "text": full}), ("verify", {"versions": ["v9"], "engine": "emulator"}), ("source", {"version": "v9"}),
                    *(("source", {"version": "v9", "file": f}) for f in ("data_link/secret", ".git/config", "../outside/secret"))):
    out += ask("tools/call", name=name, arguments=given)
p.stdin.close(); p.wait()
print("LEAK" if "Xq7Canary" in out or not out else "closed")
P
mcp() { # NAME, front matter, text: @O is the folder outside
  local root="$scratch/p"; rm -rf "$root" "$scratch/outside"; mkdir -p "$scratch/outside"
  "$WBPY" -P "$scratch/make.py" plain "$root"; mkdir "$root/.git"
  echo 'int Xq7Canary = Xq7Canary1; Xq7Canary other;' | tee "$scratch/outside/secret" > "$root/.git/config"
  ln -s "$scratch/outside" "$root/data_link"
  local said; said=$(cd "$root" && timeout 60 "$WBPY" -P "$scratch/ask.py" "$WB" "$root" "$2" "${3//@O/$scratch/outside}")
  [ "$said" = closed ]; say "mcp: $1" $?
}
mcp "link in the root" 'flags = ["-Idata_link"]' '#include "secret"'
mcp "link, climbing" '' '#include "../../data_link/secret"'
mcp "-I.git" 'flags = ["-I.git"]' '#include "config"'
mcp ".git, climbing" '' '#include "../../.git/config"'
mcp "comment before" '' '/**/ #include "@O/secret"'
mcp "digraph" '' '%:include "@O/secret"'
mcp "import" '' '#import "@O/secret"'
mcp "splice" '' '#inc\\\nlude "@O/secret"'
mcp "macro" '' '#define P "@O/secret"\n#include P'
mcp "made directive" '' '#define H #\nH include "@O/secret"'
mcp "comment within" '' '#/**/include/**/<@O/secret>'
total() { # KIND COMMAND...
  local root="$scratch/t$1"; local kind=$1; shift
  [ -d "$root" ] || "$WBPY" -P "$scratch/make.py" "$kind" "$root"
  (cd "$root" && XDG_CACHE_HOME="$scratch/c$kind$1" "$WBPY" -P - "$WB" "$@" <<'P'
import os, resource, signal, sys
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1); os.dup2(1, 2); signal.alarm(60)
    resource.setrlimit(resource.RLIMIT_CPU, (int(os.environ.get("CPU_S", 6)),) * 2)  # seconds of a processor
    os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
code = os.waitstatus_to_exitcode(status)
sys.exit(not (0 <= code <= 6 and used.ru_maxrss < 1_000_000))
P
  ); say "totals: $kind, $*" $?
}
total links list; total links show v0; CPU_S=3 total lines show v0; CPU_S=3 total lines list
total ptx report; total ptx export counters --out x.csv
exit $failed
