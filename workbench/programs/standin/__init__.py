"""CUDA programs without a GPU: a driver and a runtime that hand their launches to the emulator.

In: a program, or a source. Out: what it launched, what was counted, and what it does wrong.
"""
