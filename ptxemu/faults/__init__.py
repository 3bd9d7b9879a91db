"""What a kernel does wrong: noticed while it runs, traced to its lines, told in words.

In come accesses and the values behind them; out go faults that name the thread, the
array and the source line.
"""
