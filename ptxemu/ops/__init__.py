"""The semantics of PTX instructions: a builder for every opcode, found by `ptxemu.compiled`.

In comes a typed instruction and the context that it is compiled against; out goes a
closure over registers and a mask of lanes.
"""
