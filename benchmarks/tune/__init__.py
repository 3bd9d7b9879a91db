"""Tuning beside trying everything: what `workbench tune` finds, and what of the GPU it takes.

`__main__` measures; `kernels/` holds studies whose versions have a space.
"""
