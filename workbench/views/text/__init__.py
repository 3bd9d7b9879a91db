"""JSON, CSV and Markdown: the same facts for programs, spreadsheets and comments.

In come records and sheets; out goes text whose form is promised in docs/json.md.
"""
