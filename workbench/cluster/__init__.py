"""Work that a cluster's queue does: sent, waited for, and what became of it.

A task's *pieces* are versions on problems. `dispatch` keeps both in files that login node and jobs
share, `fleet` sends them out and waits; `slurm` knows the queue, and what a job of it does.
"""
