"""What threads read at once: a record whose type nobody has met before."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from pathlib import Path

import pytest

from workbench.compile import build


@pytest.mark.slow
def test_threads_may_be_the_first_to_read_an_entry(tmp_path: Path) -> None:
    """Each child is a process that has read none yet; a tenth of them died of a signal."""
    record = b'{"cubin_sha256": "", "build": {}}'
    checksum = hashlib.sha256(record).hexdigest().encode()
    (tmp_path / build._RECORD).write_bytes(checksum + b"\n" + record)
    for _ in range(100):
        child = os.fork()
        if not child:
            sys.setswitchinterval(1e-6)
            gate = threading.Barrier(4)

            def read(gate: threading.Barrier = gate) -> None:
                gate.wait()
                build._read(tmp_path)

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
