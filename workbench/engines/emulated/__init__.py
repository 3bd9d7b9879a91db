"""The emulator as an engine: it runs a version's launches on the CPU and makes a `Profile`.

Input: a version and a problem. Output: a checked result, counters by source line, and, if the
result is wrong, the line that caused it.
"""
