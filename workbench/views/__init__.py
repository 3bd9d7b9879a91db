"""Views for people and programs: tables, text, terminal and HTML. They compute nothing.

The input is records of `workbench.analysis` and `workbench.store`; the output is text.
`workbench.analysis` makes the decisions.
"""
