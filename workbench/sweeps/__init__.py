"""Time and store every version of a study at every size: `sweep`.

Versions and patterns of problems go in; stored times come out, and a table of versions × problems.
"""
