"""The semantics of PTX instructions: a builder for every opcode, found by `ptxemu.compiled`.

Input: a typed instruction and the context in which it is compiled. Output: a closure over registers
and a mask of lanes.
"""
