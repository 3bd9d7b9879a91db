"""JSON, CSV and Markdown: the same facts for programs, spreadsheets and comments.

The input is records and sheets; the output is text in the form that docs/json.md guarantees.
"""
