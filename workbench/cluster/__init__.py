"""Send work to a cluster's queue, wait for it, and collect its results.

A task's *pieces* are versions on problems. `dispatch` keeps both in files that the login node and
jobs share, `fleet` sends them and waits; `slurm` handles the queue, and runs a job's pieces.
"""
