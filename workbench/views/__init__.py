"""Views for people and programs: tables, text, terminal and HTML. They compute nothing.

In come records of `workbench.analysis` and `workbench.store`; out go characters. A view
that has to decide something finds the decision in `workbench.analysis`.
"""
