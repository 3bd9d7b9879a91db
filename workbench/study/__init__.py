"""Load a folder of kernels as a `Study`: problems, inputs, reference, and a ladder of versions.

It runs ``kernels/<study>/study.py``, reads the front matter of the versions beside it, and returns
checked records; it uses neither a compiler nor a device.
"""
