"""A folder of kernels becomes a `Study`: problems, inputs, reference, and a ladder of versions.

In come the files under ``kernels/<study>/``: ``study.py``, which is run, and the versions,
whose front matter is read. Out go checked records; no compiler and no device is touched.
"""
