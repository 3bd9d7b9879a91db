"""Take versions from their build to their stored profiles.

A study and a request come in; the engines run it, and records of verified versions go into the
store. `ladder` reads them back, in order.
"""
