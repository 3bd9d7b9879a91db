"""A whole Slurm on one machine, below one folder: every daemon is our child, and ends with us.

munged, MariaDB, slurmdbd, slurmctld and two ``slurmd -N``, on ports that were free, with
two fake GPUs a node. Nothing of a Slurm that is installed is read or written.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.processes import runs

NODES = ("node1", "node2")
PROGRAMS = (
    *("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "mariadb-install-db"),
    *("sbatch", "squeue", "sacct", "sacctmgr", "scontrol", "srun", "scancel"),
)
_SBIN = "/usr/sbin:/sbin"

_CONF = """
ClusterName=workbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
ReturnToService=1
SlurmdParameters=config_overrides
JobRequeue=1
SlurmdTimeout=20
KillWait=2
MessageTimeout=30
MinJobAge=300
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,default_queue_depth=200
{accounting}
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node1} CPUs=8 Gres=gpu:2
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={node2} CPUs=8 Gres=gpu:2
PartitionName=gpus Nodes=node1,node2 Default=YES MaxTime=60 State=UP
"""
_ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={folder}/munge.sock
JobAcctGatherType=jobacct_gather/none
"""
_DBD = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


def lacking() -> str:
    """Why there can be no Slurm here; empty where there can."""
    path = f"{os.environ['PATH']}:{_SBIN}"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (`make test-cluster` installs them)"
    return "" if os.geteuid() == 0 else "the daemons of a Slurm with several users need root"


def _ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


class Slurm:
    """A running Slurm. `env` is what its commands need.

    Args:
        folder: Where all of it lies; short, since paths of sockets are limited.
        accounting: With slurmdbd and a database.
    """

    def __init__(self, folder: Path, *, accounting: bool = True) -> None:
        self.folder = folder
        self.accounting = accounting
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SLURM")},
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{os.environ['PATH']}:{_SBIN}",
        }
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start everything, and wait until both nodes are idle."""
        names = ("ctld", "node1", "node2", "dbd", "sql")
        ports = dict(zip(names, _ports(len(names)), strict=True))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir(exist_ok=True)
        host = socket.gethostname().partition(".")[0]
        words = {**ports, "folder": self.folder, "host": host}
        accounting = _ACCOUNTING.format(**words) if self.accounting else ""
        conf = _CONF.format(**words, accounting=accounting)
        self._write("slurm.conf", conf)
        self._write("gres.conf", "AutoDetect=off\nName=gpu File=/dev/null,/dev/zero\n")
        self._write("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        self._write("slurmdbd.conf", _DBD.format(**words), 0o600)
        self._munge()
        if self.accounting:
            self._database(ports["sql"])
            self._child("slurmdbd", "slurmdbd", "-D")
            _until(lambda: _listens(ports["dbd"]), "slurmdbd")
        self._child("slurmctld", "slurmctld", "-D", "-c")
        for node in NODES:
            self._child(node, "slurmd", "-D", "-N", node)
        _until(lambda: self.states() == dict.fromkeys(NODES, "idle"), "both nodes")

    def stop(self) -> None:
        """End everything, jobs first, and see that nothing is left."""
        control = self._children.get("slurmctld")
        if control is not None and control.poll() is None:
            with contextlib.suppress(subprocess.SubprocessError, OSError):
                self.run("scancel", "--user=root", check=False)
        pids = self._family()
        for name in ("node1", "node2", "slurmctld", "slurmdbd", "mariadbd", "munged"):
            if child := self._children.pop(name, None):
                child.terminate()
                try:
                    child.wait(10)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
        for pid in pids:  # steps have their own sessions
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _until(lambda: not any(runs(pid) for pid in pids), "the end of all")
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words: str, check: bool = True) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(
            words, env=self.env, capture_output=True, text=True, timeout=60, check=False
        )
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def states(self) -> dict[str, str]:
        """The state of each node."""
        rows = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).split("\n")
        return dict(row.split() for row in rows if row)

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)

    def _child(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("wb") as out:
            self._children[name] = subprocess.Popen(
                words,
                env=self.env,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                preexec_fn=_end_with_us,
            )

    def _munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o400)
        self._child(
            "munged",
            *("munged", "--foreground", "--force", f"--key-file={key}"),
            *(f"--socket={self.folder / 'munge.sock'}", f"--pid-file={self.folder / 'munge.pid'}"),
            *(f"--log-file={self.folder / 'munge.log'}", f"--seed-file={self.folder / 'seed'}"),
        )
        _until((self.folder / "munge.sock").exists, "munged")

    def _database(self, port: int) -> None:
        data = self.folder / "sql"
        subprocess.run(
            [
                *("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root"),
                *("--skip-test-db", "--auth-root-authentication-method=normal"),
            ],
            env=self.env,
            capture_output=True,
            check=True,
        )
        self._write("init.sql", "GRANT ALL ON *.* TO 'slurm'@'%' IDENTIFIED BY 'slurm';\n")
        self._child(
            "mariadbd",
            *("mariadbd", "--no-defaults", f"--datadir={data}", "--user=root"),
            *("--bind-address=127.0.0.1", f"--port={port}", f"--socket={self.folder / 'sql.sock'}"),
            *(f"--pid-file={self.folder / 'sql.pid'}", f"--init-file={self.folder / 'init.sql'}"),
            *("--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0"),
        )
        _until(lambda: _listens(port), "MariaDB")

    def _family(self) -> set[int]:
        """All processes that have this Slurm's configuration in their environment."""
        mark = f"SLURM_CONF={self.env['SLURM_CONF']}".encode()
        found = set()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0") and int(path.parent.name) != os.getpid():
                    found.add(int(path.parent.name))
        return found


def _end_with_us() -> None:
    """In a child: end when pytest is killed, which then tears nothing down (prctl(2))."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.1)


@contextlib.contextmanager
def slurm(folder: Path, *, accounting: bool = True) -> Iterator[Slurm]:
    """A Slurm for the length of the block."""
    made = Slurm(folder, accounting=accounting)
    try:
        made.start()
        yield made
    finally:
        made.stop()
