"""The HTML report: a static site from stored profiles; only changed pages are rebuilt.

The input is a project's store or report files; the output is pages that need no server or network.
"""
