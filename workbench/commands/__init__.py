"""One command a file: its options, one call, its output. Wiring only.

Reads the words of a command line; gives an exit code and the output of the views.
"""
