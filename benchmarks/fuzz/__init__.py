"""Damaged kernels, run by the emulator and by a GPU: do both say the same of each?

``make fuzz`` makes the mutants and runs them in the emulator; ``make fuzz-gpu``, on a machine
with a GPU, runs the same ones there and compares. A mutant is known by its number: its version,
problem and edit follow from it and from the recorded PTX, so that both halves make the same.
"""
