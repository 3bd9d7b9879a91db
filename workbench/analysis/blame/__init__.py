"""Which instruction made a warp wait, where samples say only which one waited.

In comes a launch's instruction table with its warp samples; out goes, for every sample, the
row that is to blame for it, with the register, the queue or the barrier between the two.
"""
