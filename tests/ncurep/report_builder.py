"""Report files assembled by hand, block by block, as small as the format allows."""

from __future__ import annotations

from workbench.ncurep import container as c
from workbench.ncurep.wire import varint


def number(key: int, value: int) -> bytes:
    return varint(key << 3) + varint(value)


def data(key: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(key << 3 | 2) + varint(len(raw)) + raw


def sized(raw: bytes) -> bytes:
    return c.SIZE.pack(len(raw)) + raw


def block(
    session: bytes = b"", sources: tuple[bytes, ...] = (), results: tuple[bytes, ...] = ()
) -> bytes:
    payload = b"".join(sized(entry) for entry in (*sources, *results))
    header = number(c.NUM_SOURCES, len(sources)) + number(c.NUM_RESULTS, len(results))
    if session:
        header += data(c.SESSION, session)
    header += number(c.PAYLOAD_SIZE, len(payload))
    header += data(c.PROCESS, number(1, 42) + data(c.PROCESS_NAME, "/usr/bin/app"))
    return sized(header) + payload


def source(*functions: str) -> bytes:
    entries = b"".join(data(c.FUNCTIONS_ENTRY, data(c.FUNCTION_NAME, f)) for f in functions)
    return number(1, 7) + data(4, b"\x7fELF") + data(c.SOURCE_FUNCTIONS, entries)


def result(name: str) -> bytes:
    return number(1, 42) + data(c.RESULT_MANGLED, name) + data(c.RESULT_FUNCTION, name)


def tool(name: str, version: str) -> bytes:
    return data(c.SESSION_TOOL, data(c.TOOL_NAME, name) + data(c.TOOL_VERSION, version))


SYSTEM = data(1, "Linux") + data(5, "secret-host") + number(6, 2) + data(7, data(1, "10.1.2.3"))
OPENING = block(number(c.SESSION_CREATED, 1_763_683_200) + data(c.SESSION_HOST, SYSTEM))
SESSION = (
    block(data(c.SESSION_DEVICE, data(2, "NVIDIA H200"))),
    block(tool("CUDA Version", "13.0")),
    block(tool("Nsight Compute Target", "2025.3.1.0 (build 1) (public-release)")),
    block(data(c.SESSION_SYSTEM, SYSTEM)),
)


def command(text: str) -> bytes:
    return block(data(c.SESSION_COMMAND, text))


def report(*blocks: bytes) -> bytes:
    return c.MAGIC + sized(number(1, 7)) + b"".join(blocks)


def whole(*later: str, options: str = "-o x") -> list[bytes]:
    """The blocks of a report of kernel ``first`` and of `later` ones."""
    blocks = [OPENING, block(sources=(source("first"),)), block(results=(result("first"),))]
    blocks += [*SESSION, command(f"/opt/ncu/ncu {options} ./app")]
    if later:
        blocks.append(block(sources=(source(*later),)))
        blocks += [block(results=(result(name),)) for name in later]
    return blocks
