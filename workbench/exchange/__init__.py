"""A project's records as tables for other programs: `export`.

Filters of stored profiles and times go in; CSV or Parquet comes out, a row for each value.
"""
