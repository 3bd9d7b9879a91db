"""Every version of a study at every size, timed and stored: `sweep`.

Versions and patterns of problems go in; stored times come out, and a table of versions × problems.
"""
