"""A version's source becomes a cubin, its PTX, and what its kernels take of the chip.

In come the sources of a version and a chip's name; nvcc, or NVRTC in a child process,
does the work. Out go a `Build` kept by content, or the compiler's complaint at its line.
"""
