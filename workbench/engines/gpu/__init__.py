"""The worker's side of a GPU: its context, buffers, loaded versions, clocks and stopwatches.

In come jobs; out go outputs, times and the conditions they were taken under. Only the
worker's process imports what talks to the driver.
"""
