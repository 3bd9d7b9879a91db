"""The project for editors: what is recorded of the lines of a version, over one connection.

Questions of the Language Server Protocol come in, and what `editing.opened` says of a file goes
out as hints, boxes, lenses and diagnostics. Nothing is run for it, but where a client asks for
that when it begins: then each saved version is tried in the emulator, in a process of its own.
"""
