"""What of a CUDA source is for the device: the lines that a kernel needs, and no host code.

Functions of the host alone go, and so do headers of libraries that only they use. What stays
keeps its lines, so that a line table still fits it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workbench.analysis.source.lines import Range, scan
from workbench.analysis.source.symbols import parse

if TYPE_CHECKING:
    from tree_sitter import Node

_ON_DEVICE = re.compile(r"\b(?:__global__|__device__|constexpr|__host__ __device__)\b")
_INCLUDE = re.compile(r'\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')
#: Headers of which no device code makes use: of frameworks, and the standard library's for hosts.
_FRAMEWORKS = re.compile(r"(?:torch|ATen|c10|pybind11|caffe2|tensorflow|jax|xla)/|Python\.h")
_HOST = re.compile(
    "algorithm|cassert|chrono|cstdio|cstdlib|cstring|fstream|functional|iomanip|iostream|map|memory|"
    "mutex|numeric|random|sstream|stdexcept|stdio.h|stdlib.h|string|string.h|thread|unordered_map|"
    "vector"
)
_INSIDE = {
    "namespace_definition", "linkage_specification", "declaration_list", "preproc_if",
    "preproc_ifdef", "preproc_else", "preproc_elif", "ERROR",
}  # fmt: skip


def device_lines(text: str) -> list[Range]:
    """Lines of a source that device code may need: 1-based first and last, ascending."""
    source = scan(text)
    root, plain = parse(source)
    gone = [False] * len(source.lines)
    kept: set[int] = set()
    stack = [root]
    while stack:
        for node in stack.pop().children:
            rows = range(node.start_point[0], node.end_point[0] + (node.end_point[1] > 0))
            if node.type in _INSIDE:
                stack.append(node)
            elif _for_host(node, plain):
                for row in rows:
                    gone[row] = True
            elif node.is_named and node.type not in ("comment", "preproc_include"):
                kept |= set(rows)
    body = "\n".join(source.lines[row] for row in sorted(kept))
    for row, line in enumerate(source.lines):
        found = _INCLUDE.match(line)
        if found and _useless(found[1] or found[2], body):
            gone[row] = True
    for row in kept:
        gone[row] = False  # a line that both share
    return _ranges(gone)


def _for_host(node: Node, text: str) -> bool:
    """Whether it is a function that runs on the host alone, or announces one."""
    inner = node
    while inner.type == "template_declaration" and inner.named_children:
        inner = inner.named_children[-1]
    function = inner.type == "function_definition" or (
        inner.type in ("declaration", "expression_statement")
        and any(each.type == "function_declarator" for each in inner.children)
    )
    body = inner.child_by_field_name("body")
    head = text[node.start_byte : body.start_byte if body is not None else node.end_byte]
    return function and not _ON_DEVICE.search(head)


def _useless(header: str, body: str) -> bool:
    host = _HOST.fullmatch(header) and "std::" not in body
    return bool(_FRAMEWORKS.match(header) or host)


def _ranges(gone: list[bool]) -> list[Range]:
    found: list[Range] = []
    for line, absent in enumerate(gone, 1):
        if absent:
            continue
        if found and found[-1][1] == line - 1:
            found[-1] = found[-1][0], line
        else:
            found.append((line, line))
    return found
