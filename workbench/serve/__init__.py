"""The report on a local address, live: checks requests, watches files, sends news.

In come requests from this machine and the folder's files; out go pages and news for open ones.
"""
