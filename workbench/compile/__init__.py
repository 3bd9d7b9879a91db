"""Compile a version's source to a cubin and PTX, and read its kernels' resources.

Input: the sources of a version and a chip's name; nvcc, or NVRTC in a child process, does the work.
Output: a `Build`, cached by content, or the compiler's error at its line.
"""
