"""Tables as data, each made once: columns, rows and notes that every output prints.

In come records; out go sheets for the terminal and for `workbench.views.text`.
"""
