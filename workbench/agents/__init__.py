"""The project for programs that optimize kernels: tools and resources, over one connection.

A tool runs a command of `workbench` as a process of its own, and gives its JSON document in pages
of a stated size; it decides nothing that a command does not. `fence` holds what a client may name
and what it may have run or written, `server` speaks the protocol.
"""
