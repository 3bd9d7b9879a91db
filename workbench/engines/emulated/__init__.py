"""The emulator as an engine: a version's launches run on the CPU, as a `Profile`.

In come a version and a problem; out go a checked result, counters by source line, and,
where the result is wrong, the line that made it so.
"""
