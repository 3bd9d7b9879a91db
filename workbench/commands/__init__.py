"""One command a file: its options, one call, its output. Wiring only.

In come words of a command line; out go an exit code and what the views print.
"""
