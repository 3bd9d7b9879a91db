"""Serve the project to programs that optimize kernels: tools and resources, on one connection.

A tool runs a command of `workbench` in a separate process, and returns its JSON document in pages
of a stated size; every decision is the command's. `fence` limits the names that a client may use
and the actions that it may request; `server` implements the protocol.
"""
