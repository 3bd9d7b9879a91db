"""Reading Nsight Compute reports into `workbench.model.Profile`.

`container` checks the file's own structure (the native reader does not),
`extract` runs the native reader in a child process, and `read` uses both.
"""
