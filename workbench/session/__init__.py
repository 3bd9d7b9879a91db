"""The application: what was asked for is found, loaded, compared and judged here.

Names, options and folders go in; typed results come out, and what is wrong is raised as an
error of `workbench.errors`: nothing is printed. Commands, `serve mcp`, notebooks and tests call it:
`api.Session` is its face.
"""
