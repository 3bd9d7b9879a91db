"""A project's records as tables for other programs: `export`.

The input is a filter of stored profiles and times; the output is CSV or Parquet, a row per value.
"""
