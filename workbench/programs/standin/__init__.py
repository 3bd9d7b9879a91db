"""CUDA programs without a GPU: a driver and a runtime that hand their launches to the emulator.

The input is a program or a source. The output is its launches, their counts, and its faults.
"""
