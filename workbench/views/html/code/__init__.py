"""Source, PTX and machine code in pages: coloured lines, gutters, hunks, both sides.

The input is profiles and the pairs of facing lines. The output is markup, made without a template
because a page has hundreds of lines, and columns for the page's script.
"""
