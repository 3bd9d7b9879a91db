"""Faults of a kernel: found while it runs, traced to its lines, described in words.

In come accesses and the values behind them; out go faults that name the thread, the
array and the source line.
"""
