"""The terminal: tables and sentences, coloured where the terminal can, legible at 80 columns.

In come records and sheets; out go renderables for one console.
"""
