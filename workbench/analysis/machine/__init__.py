"""What the compiler made of a piece of source on both sides, instruction beside instruction.

In come two launches and the rows that belong to a hunk; out go opcode classes with counts and
waits, registers live, and which instruction stands in for which.
"""
