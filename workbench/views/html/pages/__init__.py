"""One module for each kind of page: its content, as a model for its template.

In come ladders, steps and profiles; out go records of finished text and widths. Nothing
is decided here that another output tells as well.
"""
