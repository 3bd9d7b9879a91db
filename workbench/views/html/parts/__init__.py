"""Pieces that several pages show: heads, tiles, tables, verdicts, links, rules.

In come launches, comparisons and stories; out go records of finished text, which the
templates' macros print.
"""
