"""A stand-in for PyCUDA on machines without a GPU: host memory, Python "kernels"."""

VERSION_TEXT = "0 (stand-in)"
