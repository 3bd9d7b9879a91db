"""Captures and runs as text: tables, pages, terminal, Markdown and JSON.

The input is captures and their differences from `compared`. The output is sheets (`sheets`, `ran`),
kernels' steps (`steps`) and pages of the site (`captured`, with models in `page`).
"""
