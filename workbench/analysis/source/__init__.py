"""Two sources, aligned: hunks, paired files, and which line uses what a hunk changed.

In come the texts that profiles hold; out go hunks and links of lines, on which
`workbench.analysis.attribution` shares amounts out.
"""
