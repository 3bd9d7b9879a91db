"""The commands on programs, one a file: options in, a call and a view out.

Nothing is decided here. `capture`, `run` and `new` start a program as it stands.
"""
