"""The program's side of a run: jobs for the worker, its process, and what is present here.

In come versions, problems and options; out go the worker's answers as records, or an
error that says what is missing or what died.
"""
