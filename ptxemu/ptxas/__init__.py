"""What ptxas did with a kernel: which of its loops it cut, and how many instructions are issued.

In come a compiled program, its machine code (`ptxemu.sass`) and how often its PTX ran.
No result of a kernel depends on it, and it can be replaced as one piece: `issued` and `in_pieces`
are its doors.
"""

from ptxemu.ptxas.counts import MachineCode, in_pieces, issued

__all__ = ["MachineCode", "in_pieces", "issued"]
