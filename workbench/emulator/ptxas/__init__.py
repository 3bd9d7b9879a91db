"""An imitation of ptxas: how many machine instructions a kernel's PTX becomes.

In comes a compiled program and how often its blocks ran; out goes an estimate. No result
of a kernel depends on it, and it can be replaced as one piece.
"""
