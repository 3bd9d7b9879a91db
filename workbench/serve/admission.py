"""What the report's server lets in and out: which files, and which names it answers to."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit


def find_file(root: Path, path: str) -> Path | None:
    """The real path of what a request asks for, or None.

    Nothing outside of `root` is found, whatever way leads there: ``..``, encoded or not,
    an absolute path, a link. Nothing hidden is found either; the site keeps its records
    in hidden files.

    Args:
        root: The site's folder, resolved.
        path: The path of the request, percent-encoded, beginning with a slash.
    """
    parts = PurePosixPath(unquote(path, errors="surrogateescape").lstrip("/")).parts
    # A backslash and a colon are separators elsewhere, and in no name that the report writes.
    if any(part.startswith(".") or set(part) & {"\\", ":", "\0"} for part in parts):
        return None
    try:
        found = root.joinpath(*parts).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    inside = found.is_relative_to(root)
    hidden = inside and any(part.startswith(".") for part in found.relative_to(root).parts)
    return found if inside and not hidden else None


def allowed_host(header: str, bound: str) -> bool:
    """Whether a request's ``Host`` can be a reader's own doing.

    A page elsewhere can point a name of its own at this address and then read what it
    serves as if it were its own; its name is what the browser sends. So names are refused
    that are not this machine's; a port forwarded by ssh is ``localhost`` with another port.

    Args:
        header: The header; "" where there is none.
        bound: The host that the server listens on.
    """
    try:
        name = (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if name == "localhost" or name == bound.lower():
        return bool(name)
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        own = {socket.gethostname().lower(), socket.getfqdn().lower()}
        return not is_loopback(bound) and name in own
    return address.is_loopback or not is_loopback(bound)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
