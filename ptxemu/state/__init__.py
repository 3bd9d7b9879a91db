"""The state of a batch of blocks while it runs: registers, lanes, and memory.

In come sizes and addresses; out go values for all lanes at once. Operations import
this room; it imports no operation.
"""
