"""PTX text becomes typed instructions in the order in which they run.

In comes what a compiler wrote; out go flat kernels, their device functions inlined, with
basic blocks and live registers. What an instruction does is not known here.
"""
