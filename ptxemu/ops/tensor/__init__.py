"""Matrix instructions: which lane holds which element, and the products of fragments.

In come ``mma``, ``wmma`` and ``ldmatrix`` as the builders of `ptxemu.ops` take them;
out go closures over the registers of whole warps.
"""
