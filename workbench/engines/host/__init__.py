"""The program's side of a run: jobs for the worker, its process, and this machine's tools.

Input: versions, problems and options. Output: the worker's answers as records, or an error that
names the missing tool or the dead process.
"""
