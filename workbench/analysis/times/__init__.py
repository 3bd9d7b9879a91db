"""Measured times, and numbers that move by themselves: what is chance, and what is not.

`timing` has the statistics of repeated samples, `noise` how much a counter moves although nothing
has changed, `regression` a gate's verdict, `growth` whether times grow with the size.
"""
