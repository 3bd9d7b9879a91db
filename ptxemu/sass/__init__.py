"""What ptxas made of a kernel: read from its cubin, and never run.

A cubin says of each machine instruction which line of PTX it comes from, and which line of the
source; so counts that follow from PTX find the places that a profiler gives them, and from how
often the instructions of PTX ran follows how often those of the machine did.
"""
