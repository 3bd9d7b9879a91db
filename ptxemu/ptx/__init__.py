"""PTX text becomes typed instructions in the order in which they run.

Input: a compiler's text. Output: flat kernels, their device functions inlined, with basic blocks
and live registers. The effects of instructions are not known here.
"""
