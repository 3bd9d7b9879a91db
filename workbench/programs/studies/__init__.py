"""Launches of a program become a study: recorded memory, its kernels as versions, their source.

In come kept launches (`lifting`), or a file of CUDA C++ that is run (`brought`); out go the files
of a study. `recordings` writes them; `adopting`, `fitting`, `calling` and `headers` find out what
goes in.
"""
