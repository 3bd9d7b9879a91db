"""Tuning: which values of a version's parameters make it fastest, and how that was found out.

In come a version whose front matter names a space and an engine; out goes a `record.Tuning`, a
line a trial, in the store. `record` lies low, for what shows and judges it; what searches and
runs lies above `measure`.
"""
