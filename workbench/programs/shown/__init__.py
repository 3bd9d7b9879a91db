"""Captures and runs in characters: tables, pages, terminal, Markdown and JSON.

In come captures and their differences, decided and worded by `compared`; out go sheets (`sheets`,
`ran`), the kernels' steps (`steps`) and the pages of the site (`captured`, with models in `page`).
"""
