"""Two sources, aligned: hunks, paired files, and which line uses what a hunk changed.

From the texts that profiles hold it derives hunks and links of lines, over which
`workbench.analysis.attribution` splits amounts.
"""
