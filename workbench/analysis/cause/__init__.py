"""The cause of a faster or slower step: the edit, the counter that proves it, the stall, the limit.

It takes a comparison and the splits of its counters and time, and returns one `Cause` with the
propositions ("this edit moved that counter") ranked by how much of the time they can explain.
`hypotheses` weighs counters, `places` finds the lines, `finding` joins them, and
`workbench.analysis.wording` phrases the result.
"""
