"""The application: it finds, loads, compares and judges what a caller names.

It takes names, options and folders, returns typed results, and raises the errors of
`workbench.errors`; it prints nothing. Commands, `serve mcp`, notebooks and tests call it through
`face.Session`.
"""
