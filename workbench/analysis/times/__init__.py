"""Measured times, and numbers that vary by chance: which changes are real.

`timing` has the statistics of repeated samples, `noise` how much a counter moves without a change,
`regression` a gate's verdict, `growth` whether times grow with the size.
"""
