"""Run a kernel's PTX on the CPU over NumPy lanes, and count what follows from it."""
