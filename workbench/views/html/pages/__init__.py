"""One module for each kind of page: its content, as a model for its template.

The input is ladders, steps and profiles; the output is records of finished text and widths.
Decisions that other outputs also show are not made here.
"""
