"""Figures and tables of the report for other documents: `export figure` and `export readme`.

The input is figures and lists of the core; the output is SVG, PNG, PDF and Markdown.
"""
