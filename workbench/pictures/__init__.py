"""Figures and tables of the report for other documents: `export figure` and `export readme`.

What is recorded comes in as figures and lists of the core; SVG, PNG, PDF and Markdown go out.
"""
