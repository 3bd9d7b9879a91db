"""Any unchanged program: the kernels that take its time, and their counters.

The input is a command. It runs once under a tracer that costs very little, and once under ncu for
the kernels that matter (`taking`). The output is a capture: records by name or by Git revision
(`capture_store`), complete or not at all. The modules that read captures (`records`,
`capture_store`, `trace`) run only Git; those that take them run programs.
"""
