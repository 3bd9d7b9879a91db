"""The limits of a kernel, and ways to make it faster.

From the counters of a launch and the chip's peaks, it derives the unit that limits (`limit`), its
place under the roofs (`roofline`), the resources that bound its warps (`occupancy`), flows between
the memories (`memory`), and ways to be faster with a bound for each (`headroom`).
"""
