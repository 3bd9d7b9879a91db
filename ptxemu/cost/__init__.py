"""What a warp's memory instruction costs: sectors, tag look-ups, wavefronts.

In come the addresses of a warp's lanes; out go counts. Pure functions, held against what
Nsight Compute counted on hardware.
"""
