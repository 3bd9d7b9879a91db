"""What runs beside the threads since compute capability 9.0: mbarriers and bulk copies.

In come instructions and the batch's shared memory; out go closures that arrive at
barriers, set copies off and land them when somebody waits for them.
"""
