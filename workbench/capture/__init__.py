"""Any program, as it stands: which kernels it spends its time in, and what these do.

In comes a command; it is run once under a tracer that costs next to nothing, and once under ncu
for the kernels that matter. Out goes a record of `workbench.captures`, or a sentence that says
what could not be had.
"""
