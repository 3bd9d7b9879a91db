"""Any CUDA program: `capture` its kernels, `run` it without a GPU, lift a launch out of it.

The input is a command or a CUDA C++ file. The outputs are captures (``@NAME``), which the core's
commands show and compare through `targets` and `pages`, and studies of launches.
"""
