"""Analysis of recorded profiles: comparison, attribution, limits, and the story of a step.

In come `Profile` and `Timing` records and nothing else; out go decisions as records,
which the views print. Pure functions: no file, no clock, no device.
"""
