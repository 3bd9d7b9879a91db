"""Serve the report on a local address, live: check requests, watch files, send news.

Requests from this machine and the folder's files go in; pages and their news come out.
"""
