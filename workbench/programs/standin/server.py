"""The emulator's side of the stand-in: a socket that processes connect to, one device each.

The protocol is lines of words; the last word says how many bytes follow (``@N``). It is described
in ``docs/run.md``. The messages come from a program that may do anything with its own memory, so
they are not trusted: an invalid message ends the connection.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import traceback
from pathlib import Path
from typing import IO

from workbench.programs.standin.callsites import chain_of
from workbench.programs.standin.device import (
    ARENA,
    BASES,
    RESERVED,
    TIME_IS_OVER,
    EmulatedDevice,
    LaunchAsked,
    Refusal,
    RunOverError,
    RunState,
    fields,
)

#: The length of a socket's path that every system accepts (``sun_path`` has 108 bytes).
_LONGEST = 100
#: The most bytes of a payload: a module of CUB has 21 MB.
_PAYLOAD = 1 << 30
#: The notice on a program that makes data persist in the L2.
PERSISTING = (
    "The program keeps data in the L2 (a persisting access policy), and a study does not, so only "
    "the program's own times can be of data that stayed in the L2."
)


class StandinServer:
    """Serves every process of a run, at a socket in a folder of the user's. A context manager."""

    def __init__(self, state: RunState, path: Path) -> None:
        self.state, self.path = state, path
        self.address, self._folder = str(path), -1
        self.processes = 0
        self.failure: BaseException | None = None
        self._socket = socket.socket(socket.AF_UNIX)
        self._threads: list[threading.Thread] = []
        self._one = threading.Lock()  # everything that emulates runs one at a time
        self._connections: list[socket.socket] = []

    def __enter__(self) -> StandinServer:
        if len(self.address) > _LONGEST:  # a shorter path for the same folder
            self._folder = os.open(self.path.parent, os.O_PATH | os.O_DIRECTORY)
            self.address = f"/proc/{os.getpid()}/fd/{self._folder}/{self.path.name}"
        self._socket.bind(self.address)
        self._socket.listen(64)
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        if self._folder >= 0:
            os.close(self._folder)
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        for thread in self._threads:
            thread.join(timeout=5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """Serve one process's device from connection to end."""
        with self._one:
            number, self.processes = self.processes, self.processes + 1
        try:
            device = EmulatedDevice(self.state, number)
        except OSError as error:
            self.failure = self.failure or error
            return _end(connection)
        try:
            with connection.makefile("rb") as stream:
                _greet(connection, self.state, device)
                _Conversation(connection, stream, device, self._one).run()
        except (OSError, EOFError):
            pass  # the process has ended
        except RunOverError:
            self.state.stopped = self.state.stopped or TIME_IS_OVER
            _end(connection)
        except Exception as error:  # our own error, or an invalid message
            self.failure = self.failure or error
            error.add_note(traceback.format_exc())
        finally:
            connection.close()
            device.close()


def _end(connection: socket.socket) -> None:
    """End the process at the other end; its later calls would all fail."""
    pid, _, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _greet(connection: socket.socket, state: RunState, device: EmulatedDevice) -> None:
    facts = state.chip.facts.encode()
    bases = ",".join(map(str, BASES))
    line = f"ARENA {ARENA} {RESERVED} {int(state.check)} {bases} @{len(facts)}\n".encode()
    fds = struct.pack("2i", device.arena_fd, device.mask_fd)
    connection.sendmsg([line + facts], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])


class _Conversation:
    """Messages of one process, and their answers."""

    def __init__(
        self,
        connection: socket.socket,
        stream: IO[bytes],
        device: EmulatedDevice,
        one: threading.Lock,
    ) -> None:
        self._connection, self._stream = connection, stream
        self._device, self._one = device, one

    def run(self) -> None:
        """Answer until the process ends.

        Raises:
            EOFError: it has ended.
            RunOverError: the run is over.
        """
        while True:
            line = self._stream.readline()
            if not line.endswith(b"\n"):
                raise EOFError
            words = line.decode("ascii", "replace").split()
            payload = b""
            if words and words[-1].startswith("@"):
                payload = self._read(int(words.pop()[1:]))
            if words:
                with self._one:
                    self._hear(words[0], words[1:], payload)

    def _read(self, size: int) -> bytes:
        if not 0 <= size <= _PAYLOAD:
            raise ValueError(f"a payload of {size} bytes")
        data = self._stream.read(size)
        if len(data) != size:
            raise EOFError
        return data

    def _answer(self, said: str | bytes | int | Refusal = 0) -> None:
        if isinstance(said, int):
            self._connection.sendall(f"OK {said}\n".encode())
            return
        line, text = (f"ERR {said.code}", said.why) if isinstance(said, Refusal) else ("OK 0", said)
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        self._connection.sendall(f"{line} @{len(data)}\n".encode() + data)

    def _hear(self, message: str, words: list[str], payload: bytes) -> None:
        """Handle a message from `docs/run.md`; an unknown one is ignored."""
        device = self._device
        match message:
            case "HELLO":
                device.begin(int(words[2]))
                self._answer()
            case "MODULE":
                self._answer(device.load(int(words[0]), _parts(payload, int(words[1]))))
            case "ALLOC":
                chain = chain_of(payload.decode("utf-8", "replace"))
                device.allocate(int(words[0]), int(words[1]), words[2], chain)
            case "FREE":
                device.free(int(words[0]))
            case "TOUCH":
                device.touch(int(words[0]), int(words[1]))
            case "MIXED":
                device.memo.forget()
            case "LAUNCH":
                self._answer(device.launch(_launch(words, payload)))
            case "TEXTURE":
                self._answer(device.texture(fields(payload.decode())))
            case "TENSORMAP":
                self._answer(device.tensor_map(*map(int, words)))
            case "UNTEXTURE":
                device.textures.pop(int(words[0]), None)
            case "RESOURCES":
                self._answer(device.resources(int(words[0]), words[1]))
            case "MISSING":
                device.state.note(f"missing {words[0]}", f"{words[0]} was called, but is not here")
            case "PERSISTING":
                device.state.note("persisting", PERSISTING)
            case "REFUSED":
                device.state.refused(words[1], list(map(int, words[2:])))
            case "STATIC":
                device.state.note("static", _static(Path(os.fsdecode(payload)).name))


def _parts(payload: bytes, count: int) -> list[bytes]:
    """The images of a module, each after eight bytes with its size."""
    images, at = [], 0
    for _ in range(count):
        size = int.from_bytes(payload[at : at + 8], "little")
        images.append(payload[at + 8 : at + 8 + size])
        at += 8 + size
    return images


def _launch(words: list[str], parameters: bytes) -> LaunchAsked:
    numbers = list(map(int, words[3:]))
    return LaunchAsked(
        number=int(words[0]),
        module=int(words[1]),
        kernel=words[2],
        grid=(numbers[0], numbers[1], numbers[2]),
        block=(numbers[3], numbers[4], numbers[5]),
        shared=numbers[6],
        cooperative=bool(numbers[7]),
        cluster=(numbers[8], numbers[9], numbers[10]),
        stream=numbers[11],
        parameters=parameters,
    )


def _static(library: str) -> str:
    """The notice for a file that contains NVIDIA's own runtime."""
    if ".cpython-" in library:
        return (
            f"{library} holds NVIDIA's own runtime: its launches cannot be seen. Call the "
            "driver: cuda.core, cuda.bindings.driver, Numba and Triton do"
        )
    return (
        "a program is linked with NVIDIA's own runtime (-cudart static, nvcc's default): its "
        "launches cannot be seen. Build it again under `workbench run -- make`, or with -cudart "
        "shared"
    )
