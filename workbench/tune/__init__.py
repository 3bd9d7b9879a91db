"""Tuning: find the fastest values of a version's parameters, and record the search.

The input is a version whose front matter names a space, and an engine. The output is a `Tuning` in
the store, one line for each trial. Search and running import `measure`.
"""
