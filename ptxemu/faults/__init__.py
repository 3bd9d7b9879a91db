"""Faults of a kernel: find them while it runs, trace them to its lines, describe them.

Input: accesses and the values behind them. Output: faults that name the thread, the array and the
source line.
"""
