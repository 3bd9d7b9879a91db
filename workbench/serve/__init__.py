"""The report on a local address, live: what is let in, what has changed, who is told.

In come requests from this machine and the folder's files; out go pages and news for
those that are open.
"""
