"""Visits that open something before and close it behind: scopes, guards, flows of uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from workbench.analysis.source.cuda.reader import Reader

Action = Callable[[], None]


def scope(reader: Reader, node: Node) -> Action:
    """Open a scope; returns what closes it."""
    reader.scopes.append({})
    reader.blocks.append((node.start_byte, node.end_byte))

    def close() -> None:
        reader.scopes.pop()
        reader.blocks.pop()

    return close


def guarded(reader: Reader, node: Node | None) -> list[Node | Action]:
    """Visit a node as a conditional block: what it assigns may not have happened."""
    if node is None:
        return []
    span = (node.start_byte, node.end_byte)

    def close() -> None:
        reader.guards.pop()

    return [lambda: reader.guards.append(span), node, close]


def fed(
    reader: Reader, kind: str, index: int, *inside: Node | Action | None
) -> list[Node | Action]:
    """Visit nodes while their uses flow into something."""
    nodes = (node for node in inside if node is not None)
    return [opened(reader, kind, index), *nodes, closed(reader)]


def opened(reader: Reader, kind: str, index: int) -> Action:
    """What starts a flow of uses into something."""
    return lambda: reader.feeds.append((kind, index))


def closed(reader: Reader) -> Action:
    """What ends the innermost flow."""

    def close() -> None:
        reader.feeds.pop()

    return close
