"""The state of a batch of blocks while it runs: registers, lanes, and memory.

Input: sizes and addresses. Output: values for all lanes at once. Operations import this package; it
imports no operation.
"""
