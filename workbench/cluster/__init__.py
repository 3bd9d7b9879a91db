"""Send work to a cluster's queue, wait for it, and collect its results.

A task's *pieces* are versions on problems. `dispatch` keeps both in files that login node and jobs
share, `fleet` sends them out and waits; `slurm` knows the queue, and runs a job's pieces.
"""
