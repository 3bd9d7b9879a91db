"""The worker's side of a GPU: its context, buffers, loaded versions, clocks and stopwatches.

Input: jobs. Output: outputs, times and the conditions under which they were taken. Only the
worker's process imports the modules that call the driver.
"""
