"""What became of a whole program: of its time, of each of its kernels, and of those that matter.

In come two captures; out goes one record whose rows add up to the change of the program's time,
and for the kernels behind most of it the step that `analysis.story` tells of a ladder's.
"""
