"""Figures as plain data, each with the table behind it; the page's script draws them.

In come records of the analysis and of what is recorded; out go Plotly's traces and layouts
with colours as tokens, and rows of text.
"""
