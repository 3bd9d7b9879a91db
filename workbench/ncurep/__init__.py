"""Reading Nsight Compute reports into `workbench.model.Profile`.

`container` checks the file's own structure (what the native reader does not do),
`extract` runs the native reader in a child process, `read` puts both together.
"""
