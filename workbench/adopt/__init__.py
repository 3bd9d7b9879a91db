"""A report captured elsewhere becomes a version's profile, or a study: `import`.

The input is a report file or a captured kernel. The output is a stored profile, and a study if one
is needed.
"""
