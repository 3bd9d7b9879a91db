"""The cause of a faster or slower step: the edit, the counter that proves it, the stall, the limit.

In come a comparison, the split of its counters and of its time; out goes one `Cause`, with the
propositions ("this edit moved that counter") ranked by how much of the time they can explain.
`hypotheses` weighs counters, `places` finds the lines, `finding` joins them, and
`workbench.analysis.wording` puts the result into words.
"""
