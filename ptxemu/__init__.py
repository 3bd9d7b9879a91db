"""Run a kernel's PTX on the CPU over NumPy lanes, and count what follows from it.

In come PTX text, a launch and the bytes of its buffers; out go the bytes afterwards, and
counters for every source line. No study, no device and no recorded profile is known here.
"""
