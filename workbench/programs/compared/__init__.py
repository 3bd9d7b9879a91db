"""Two captured programs, and what the change of their time is made of.

In come two captures; out go their works and launches paired (`counterparts`), what of them is
compared where they repeat themselves (`iterations`), the difference with each kernel's step
(`program`), and what ranks work and wait (`skew`).
"""
