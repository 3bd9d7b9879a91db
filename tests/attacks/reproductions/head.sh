# What the parts begin with, sourced by each: an empty folder to work in, a cache of its own, and how a line is
# said. Started by run.sh: WB, WBPY (the command and its Python), REPO, REPORT, JUDGE.
set -u
: "${WB:?the workbench command}" "${WBPY:?its Python}" "${REPO:?the checkout}" "${1:?a scratch folder}"
mkdir -p "$1" && cd "$1" || exit 2
scratch=$(pwd -P) failed=0
export XDG_CACHE_HOME="$scratch/cache"
unset PYTHONPATH PYTHONSAFEPATH WORKBENCH_TRUST WORKBENCH_CEILING
say() { # NAME CODE [WORDS]: 0 is right
  if [ "$2" = 0 ]; then echo "ok $1"; else echo "FAIL $1${3:+ ($3)}"; failed=1; fi
}
