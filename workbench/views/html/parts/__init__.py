"""Pieces that several pages show: tiles, tables, verdicts, links, rules."""
