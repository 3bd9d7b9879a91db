"""A report captured elsewhere becomes a version's profile, or a study: `import`.

A report file or a captured kernel comes in; a stored profile goes out, and a study where it needs
one.
"""
