"""Any unchanged program: the kernels that it spends its time in, and their counters.

In comes a command; it is run once under a tracer that costs next to nothing, and once under ncu
for the kernels that matter (`taking`). Out goes a capture: records by name or by Git revision
(`capture_store`), whole or not at all. What reads captures (`records`, `capture_store`,
`trace`) runs nothing but Git; what takes them runs programs.
"""
