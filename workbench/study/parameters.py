"""A kernel's parameters, as far as its source and mangled name give them, and buffers' names."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from workbench.study.expressions import FUNCTIONS
from workbench.study.mangling import in_parentheses
from workbench.study.signatures import KNOWN
from workbench.study.sources import without_comments

#: The bits of a vector type, ``float4`` or ``__nv_bfloat162``: the type of each element.
_VECTOR = re.compile(r"((?:float|double|u?int|u?char|u?short|u?long|half|bfloat16))[1-4]\Z")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict)\b|[*&]")


@dataclass
class KernelParameter:
    """A kernel's parameter, from the source or the mangled name; empty if neither gives it."""

    name: str = ""
    type: str = ""

    @property
    def element(self) -> str:
        """NumPy's name of its own type, or of the type to which it points; empty if unknown."""
        return KNOWN.get(_VECTOR.sub(r"\1", " ".join(_QUALIFIERS.sub(" ", self.type).split())), "")

    @property
    def writable(self) -> bool:
        """True for a pointer to memory that the kernel may write."""
        return "*" in self.type and not re.search(r"\bconst\b[^*]*\*\s*(?:\w+\s*)?\Z", self.type)


def parameters_of(
    kernel: str, demangled: str, text: str, count: int | None = None
) -> list[KernelParameter]:
    """The kernel's parameters: types by its mangled name, names by its source.

    Its `demangled` name and its `text` may be empty; `count`: their number; None: as many as either
    gives.
    """
    mangled = in_parentheses(demangled)
    plain = without_comments(text)
    found = re.search(rf"__global__\b[^;{{}}]*?\b{re.escape(kernel)}\s*\(", plain)
    written = in_parentheses(plain[found.end() - 1 :]) if found else []
    if count is None:
        count = len(written or mangled)
    if len(mangled) != count:
        mangled = [""] * count
    if len(written) != count:
        written = [""] * count
    out = []
    for place in range(count):
        said = re.match(r"(.*?)(\w+)\s*(?:\[\w*\])?\Z", written[place].strip(), re.DOTALL)
        name = said[2] if said and said[1].strip() else ""
        own = said[1] if said else ""
        # A template's source has T; its instance has the type.
        out.append(KernelParameter(name, mangled[place] or own))
    return out


def free_name(name: str, taken: set[str]) -> str:
    """A name for a buffer that Python, expressions and the other buffers leave free."""
    plain = re.sub(r"\W", "_", name)
    if not plain.isidentifier() or keyword.iskeyword(plain) or plain in FUNCTIONS or plain == "at":
        plain = f"b_{plain}"
    found = plain
    number = 2
    while found in taken or f"{found}_before" in taken:
        found, number = f"{plain}_{number}", number + 1
    taken |= {found, f"{found}_before"}
    return found
