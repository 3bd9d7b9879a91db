"""A CUDA parse tree read into a `SourceMap`: what lines declare, use and govern.

`read_cuda` is the door. Names of file scope are `declarations`' part, the bodies
`reader`'s, which asks `statements` (and `control`) what each kind of node means.
"""

from __future__ import annotations

from workbench.analysis.source.cuda.reader import Reader
from workbench.analysis.source.cuda.statements import HANDLERS
from workbench.analysis.source.symbols import SourceMap
from workbench.analysis.source.tokens import Source


def read_cuda(found: SourceMap, file: int, source: Source) -> Reader:
    """A reader of one CUDA file."""
    return Reader(found, file, source, HANDLERS)
