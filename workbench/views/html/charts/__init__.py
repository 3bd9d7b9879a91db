"""Figures as plain data, each with a table of its numbers; the page's script draws them.

The input is records of the analysis and the store. The output is Plotly's traces and layouts, with
colours as tokens, and rows of text.
"""
