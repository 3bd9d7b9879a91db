"""How true the words about a step are: every step that was labelled by hand, judged.

The labels (``tests/data/truth/steps.toml``) were written from sources, raw counters, warp
samples and machine code, before the analysis that they judge. ``make truth`` compares.
"""
