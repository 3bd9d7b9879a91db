"""Whether the same version became slower since an earlier state of it, and how sure that is.

In come times of two states: pairs that were measured in turns (`turns`), or one run and the runs
of a baseline (`rolling`). Both become one interval of the slow-down, new time over old, and
`verdict` says what it allows: pass, fail or inconclusive.
"""
