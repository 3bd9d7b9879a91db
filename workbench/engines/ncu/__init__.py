"""Nsight Compute as an engine: one command, its failures, and the resulting profile.

Input: the version to run and the metrics to collect. Output: a `Profile` with its raw report,
without any machine's name.
"""
