"""Two captured programs, and the parts of the change in their time.

The input is two captures. The outputs are their works and launches in pairs (`counterparts`), the
iterations to compare if they repeat themselves (`iterations`), the difference with each kernel's
step (`program`), and the ranks' work and waiting (`skew`).
"""
