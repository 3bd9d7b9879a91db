"""What holds a kernel back, and what to try.

In come the counters of a launch and the chip's peaks; out go the unit that limits (`limit`), its
place under the roofs (`roofline`), what lets how many warps run (`occupancy`), flows between the
memories (`memory`), and ways to be faster with a bound for each (`headroom`).
"""
