"""Tuning: find the fastest values of a version's parameters, and record the search.

In come a version whose front matter names a space and an engine; out goes a `record.Tuning`, a
line a trial, in the store. `record` lies low, because views and gates read it; search and running
lie above `measure`.
"""
