"""A counter's change, and the duration's, shared out over hunks so that the parts add up.

In come two profiles and the links of their lines; out go parts whose sum is the change
of the whole, exactly.
"""
