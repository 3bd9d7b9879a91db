"""The commands on programs, one per file: options, a call and a view.

They decide nothing. `capture`, `run` and `new` start a program as it is.
"""
