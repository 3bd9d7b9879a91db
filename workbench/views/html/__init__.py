"""The HTML report: a static site from stored profiles, rebuilt only where it changed.

In come a project's store or report files; out go pages that open from the disk without a network.
"""
