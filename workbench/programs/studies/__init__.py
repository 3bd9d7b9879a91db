"""Make a study from a program's launches: recorded memory, kernels as versions, their source.

The input is kept launches (`lifting`), or a CUDA C++ file that is run (`brought`); the output is
the files of a study. `recordings` writes them; `adopting`, `fitting`, `calling` and `headers` find
their contents.
"""
