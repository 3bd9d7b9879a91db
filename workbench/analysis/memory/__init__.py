"""The memory chart: what moved between the levels of memory, as data.

`kinds` is the table of flows and how each is found in a report, `chart` reads them from a
profile. Pages, terminal and JSON print what `chart.memory` returns.
"""
