"""Who is let in, how many at once, and how long each may take."""

from __future__ import annotations

import ipaddress
import re
import select
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

#: ``HOST:PORT`` as browsers send it: a name, or an address in figures; nothing else stands there.
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?", re.ASCII)


def named_host(header: str) -> tuple[str, int] | None:
    """Name and port of a ``Host`` header; None where it is none (RFC 9110, section 7.2)."""
    found = _HOST.fullmatch(header)
    if found is None:
        return None
    return found[1].strip("[]").removesuffix(".").lower(), int(found[2] or 80)


def allowed_host(name: str, bound: str) -> bool:
    """Whether the name that a request asks for can be a reader's own doing.

    A page elsewhere can point a name of its own at this address and then read what it
    serves as if it were its own; its name is what the browser sends. So names are refused
    that are not this machine's.

    Args:
        name: Of the request's ``Host``, without the port.
        bound: The host that the server listens on.
    """
    if name in ("localhost", "127.0.0.1", "::1") or name == bound.lower():
        return bool(name)
    if is_loopback(bound):
        return False
    try:
        ipaddress.ip_address(name)  # which no name server can give away
    except ValueError:
        return name in _own_names()
    return True


@lru_cache(maxsize=1)
def _own_names() -> frozenset[str]:
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


# --- how many, and how long ---------------------------------------------------------------

#: Connections at once, of all visitors and of one address; of these, half may wait for news.
CONNECTIONS, OF_ONE = 128, 64
#: Bytes of a request, which is all head and no body.
HEAD_BYTES = 16 << 10
#: Seconds for a request, from its connection or its first byte; between two of one connection.
HEAD_S, IDLE_S = 10.0, 20.0
#: Seconds in which a visitor has to take a piece of an answer; in which it makes room for others.
SEND_S, STUCK_S = 20.0, 5.0
#: Seconds after which to ask again, where there is no room.
AGAIN_S = 5

_State = Literal["asking", "answered", "listening"]


@dataclass(eq=False)
class _Visitor:
    """A connection: from where, what happens on it, and since when nothing was heard or sent."""

    connection: socket.socket
    address: str
    state: _State = "asking"
    since: float = field(default_factory=time.monotonic)

    @property
    def gone(self) -> bool:
        """Whether it was closed on the other side."""
        try:
            ready = select.select([self.connection], [], [], 0)[0]
            return bool(ready) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True


class Visitors:
    """All connections at once: a limited number, so that nobody uses up threads and memory.

    Where there are too many, one makes room that is gone, that has asked for nothing yet, or that
    does not take its answer, the one that has been silent longest. So who connects and is
    silent keeps nobody out, however often; only where all are being answered is one turned away.
    """

    def __init__(self) -> None:
        self._here: dict[socket.socket, _Visitor] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._here)

    def enter(self, connection: socket.socket, address: str) -> bool:
        """Take a connection in; False where there is no room for it."""
        with self._lock:
            mine = [each for each in self._here.values() if each.address == address]
            if len(mine) >= OF_ONE and not self._part(mine):
                return False
            if len(self._here) >= CONNECTIONS and not self._part(self._here.values()):
                return False
            self._here[connection] = _Visitor(connection, address)
            return True

    def leave(self, connection: socket.socket) -> None:
        """A connection is closed."""
        with self._lock:
            self._here.pop(connection, None)

    def heard(self, connection: socket.socket, state: _State) -> None:
        """Something was asked on a connection, or a piece of the answer was taken."""
        with self._lock:
            if (visitor := self._here.get(connection)) is not None:
                visitor.state, visitor.since = state, time.monotonic()

    def listens(self, connection: socket.socket) -> bool:
        """Let a connection wait for news; False where too many do."""
        with self._lock:
            visitor = self._here.get(connection)
            if visitor is None:
                return False
            all_ = [each for each in self._here.values() if each.state == "listening"]
            mine = [each for each in all_ if each.address == visitor.address]
            for some, most in ((mine, OF_ONE // 2), (all_, CONNECTIONS // 2)):
                if len(some) >= most and not self._part(some):
                    return False
            visitor.state = "listening"
            return True

    def _part(self, some: Iterable[_Visitor]) -> bool:
        """Part with one of them, if any makes room."""
        late = time.monotonic() - STUCK_S
        longest = sorted(some, key=lambda each: each.since)
        found = next((each for each in longest if each.state == "asking"), None)
        found = found or next((x for x in longest if x.state == "listening" and x.gone), None)
        found = found or next(
            (x for x in longest if x.state == "answered" and x.since < late), None
        )
        if found is None:
            return False
        del self._here[found.connection]
        with suppress(OSError):
            found.connection.shutdown(socket.SHUT_RDWR)  # its thread wakes, and closes it
        return True
