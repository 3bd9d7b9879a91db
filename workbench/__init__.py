"""A profiling-driven optimization workbench for CUDA kernels."""

__version__ = "0.1.0"
