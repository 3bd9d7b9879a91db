"""One command per file: its options, one call, its output. Wiring only.

Reads the words of a command line; returns an exit code and prints the views' output.
"""
