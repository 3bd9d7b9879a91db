#!/usr/bin/env bash
# Debian's packages of Slurm for `make test-cluster`. Their services are not started: the tests
# start daemons of their own, below a folder of their own.
set -euo pipefail
need=(slurmctld slurmd slurmdbd munged mariadbd sbatch)
missing=()
for name in "${need[@]}"; do
  PATH="$PATH:/usr/sbin:/sbin" command -v "$name" >/dev/null 2>&1 || missing+=("$name")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
  echo "test-cluster: not here: ${missing[*]}. They are installed by apt-get, as root; without" \
    "them these tests are skipped." >&2
  exit 0
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends \
  slurmctld slurmd slurm-client slurmdbd munge mariadb-server; } >/dev/null; then
  echo "test-cluster: Slurm cannot be installed here; these tests are skipped." >&2
fi
