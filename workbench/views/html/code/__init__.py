"""Source, PTX and machine code in pages: coloured lines, gutters, hunks, both sides.

In come profiles, and which line faces which; out goes markup, written here because a
page has hundreds of lines, and columns for the page's script.
"""
