"""Launches as a reader means them: samples of one kernel, and kernels that correspond.

`samples` makes one launch of those that repeat one another, `kernels` says what became of
every kernel from one side to the other, `titles` what to call it.
"""
