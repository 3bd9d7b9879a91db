"""Take a version from its build to its stored profile, and many of them.

A study and a request come in; the engines run it, and records of verified versions go into the
store. `ladder` reads them back, in order.
"""
