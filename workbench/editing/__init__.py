"""The project for editors: the records of a version's lines, over one connection.

The input is requests of the Language Server Protocol; the output is the notes of `editing.opened`
on a file, as hints, hovers, lenses and diagnostics. Nothing is run unless a client asks for it at
its start: then each saved version is tried in the emulator, in a process of its own.
"""
