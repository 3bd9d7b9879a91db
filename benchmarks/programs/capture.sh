#!/usr/bin/env bash
# Builds, runs and captures the programs that tests/data/truth/programs.toml labels, on a machine with a GPU.
#
#   benchmarks/programs/capture.sh RESULTS [NAME|cuda|torch|ranks ...]        # default: all
#
# RESULTS gets table.txt, stdout.txt (what each program prints without a profiler), logs.tgz (a log for each
# program) and captures.tgz (.workbench with @NAME-before and @NAME-after). What fails is told in the table,
# and the rest goes on. Needs nvcc and ncu; python3 with torch and triton for those programs.
#
# WORKBENCH  the command (workbench)            FOLDER  where it builds and runs (/tmp/wb)
# PYTHON     reads the labels (python3)         LIMIT   seconds after which nothing new is begun (540)
# OPTIONS    more options of `capture`          SIDES   which ones (before after)
set -u
[ $# -ge 1 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
labels=$here/../../tests/data/truth/programs.toml
mkdir -p "$1" && results=$(cd "$1" && pwd) || exit 2
shift
folder=${FOLDER:-/tmp/wb} workbench=${WORKBENCH:-workbench} python=${PYTHON:-python3} limit=${LIMIT:-540}
run=$folder/run built=$folder/built logs=$folder/logs
mkdir -p "$run/.workbench" "$built" "$logs" || exit 3
# torchrun lies beside the Python that has torch.
beside=$(dirname "$($python -c 'import sys; print(sys.executable)')") && PATH=$PATH:$beside
gpus=$(nvidia-smi -L 2>/dev/null | wc -l)

# NAME, needs, sources, build and command of both sides, separated by the character 1F.
rows() {
    "$python" - "$labels" "$@" <<'PYTHON'
import sys, tomllib

with open(sys.argv[1], "rb") as file:
    programs = tomllib.load(file)["program"]
wanted = set(sys.argv[2:]) or {"cuda", "torch", "ranks"}
unknown = wanted - {p[key] for p in programs for key in ("name", "needs")}
if unknown:
    sys.exit(f"no such program: {', '.join(sorted(unknown))}")
for needs in ("cuda", "torch", "ranks"):
    for p in programs:
        if p["needs"] == needs and wanted & {p["name"], needs}:
            build = p["build"], p.get("build_after", p["build"])
            print(p["name"], needs, p.get("sources", p["name"]), *build, p["before"], p["after"], sep="\x1f")
PYTHON
}

# Both sides are built in the folder that they run in, one after the other, for its name is in line tables.
build() { # name sources side command
    rm -rf "${run:?}/$1" && mkdir -p "$run/$1" "$built/$1" || return
    if [ -d "$here/$2/$3" ]; then cp "$here/$2/$3"/* "$run/$1"; else cp "$here/$2"/* "$run/$1"; fi
    echo "== build $1-$3: ${4:-nothing}" >>"$logs/$1.log"
    (cd "$run/$1" && eval "$4") </dev/null >>"$logs/$1.log" 2>&1 || return
    rm -rf "${built:?}/$1/$3" && cp -a "$run/$1" "$built/$1/$3"
}

pack() {
    tar czf "$results/logs.tgz" -C "$folder" logs
    tar czf "$results/captures.tgz" -C "$run" .workbench
    cat "$results/table.txt"
}

all=$(rows "$@") || exit 2
begin=$SECONDS
: >"$results/stdout.txt"
printf '%-18s %-6s %6s %8s %8s %8s\n' program side run seconds capture seconds >"$results/table.txt"
trap pack EXIT
trap 'exit 143' TERM INT

while IFS=$'\x1f' read -r name needs sources build1 build2 _; do
    [ "$needs" = ranks ] && [ "$gpus" -lt 2 ] && continue
    rm -rf "${built:?}/$name" "$logs/$name.log"
    (build "$name" "$sources" before "$build1" && build "$name" "$sources" after "$build2") &
done <<<"$all"
wait
echo "built after $((SECONDS - begin)) s" >&2

while IFS=$'\x1f' read -r name needs sources build1 build2 before after; do
    row() { printf '%-18s %-6s %6s %8s %8s %8s\n' "$name" "$@" >>"$results/table.txt"; }
    case $needs in cuda) most=45 ;; torch) most=120 ;; *) most=75 ;; esac
    for side in ${SIDES:-before after}; do
        if [ "$needs" = ranks ] && [ "$gpus" -lt 2 ]; then row $side - "1 GPU" - -; continue; fi
        if [ ! -d "$built/$name/$side" ]; then row $side - unbuilt - -; continue; fi
        if [ $((SECONDS - begin)) -ge "$limit" ]; then row $side - "no time" - -; continue; fi
        rm -rf "${run:?}/$name" && cp -a "$built/$name/$side" "$run/$name"
        command=${!side}
        echo "$((SECONDS - begin)) s: $name-$side: $command" >&2
        echo "== $name-$side: $command" | tee -a "$results/stdout.txt" >>"$logs/$name.log"
        from=$SECONDS
        (cd "$run/$name" && timeout -k 5 $most $command) </dev/null >>"$results/stdout.txt" 2>>"$logs/$name.log"
        plain=$? middle=$SECONDS
        echo "== capture $name-$side" >>"$logs/$name.log"
        (cd "$run/$name" && timeout -k 10 $((2 * most + 20)) $workbench capture "$name-$side" --timeout $most ${OPTIONS:-} -- $command) \
            </dev/null >>"$logs/$name.log" 2>&1
        row $side $plain $((middle - from)) $? $((SECONDS - middle))
        cp "$results/table.txt" "$logs/table.txt"
    done
done <<<"$all"
