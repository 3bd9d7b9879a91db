"""The terminal: tables and sentences, coloured where the terminal can, legible at 80 columns.

The input is records and sheets; the output is renderables for one console.
"""
