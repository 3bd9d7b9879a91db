"""Any program, as it stands: which kernels it spends its time in, and what these do.

In comes a command; it is run once under a tracer that costs next to nothing, and once under ncu
for the kernels that matter (`taking`). Out goes a capture: records by name or by Git revision
(`capture_store`), whole or not at all. What reads captures (`records`, `capture_store`,
`trace`) runs nothing but Git; what takes them runs programs.
"""
