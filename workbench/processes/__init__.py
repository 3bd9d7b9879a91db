"""Processes that end with the one that started them, however that one ends.

In comes a child, forked or started as a program; what comes out is that nothing of it is left
behind: not after its end, not after ours, and not where we are killed with no time to do anything.
"""
