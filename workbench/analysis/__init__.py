"""Analysis of recorded profiles: comparison, attribution, limits, and the story of a step.

It takes only `Profile` and `Timing` records, and returns decisions as records, which the views
print. Pure functions: no file, no clock, no device.
"""
