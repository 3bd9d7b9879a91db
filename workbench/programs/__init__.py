"""Any CUDA program: `capture` its kernels, `run` it without a GPU, lift a launch out of it.

In comes a command, or a file of CUDA C++; out go captures (``@NAME``), which the core's commands
show and compare through `targets` and `pages`, and studies of what was launched.
"""
