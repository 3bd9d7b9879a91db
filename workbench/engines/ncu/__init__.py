"""Nsight Compute as an engine: one command, its failures, and the profile that comes of it.

In come what is to run and what is to be collected; out goes a `Profile` with its raw
report, free of any machine's name.
"""
