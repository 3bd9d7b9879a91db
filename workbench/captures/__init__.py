"""What is kept of a whole program: its kernels with every launch's time, its state, its sources.

In come surveys and profiles that `workbench.capture` took; out go records by name or by Git
revision, whole or not at all. Nothing here runs anything but Git.
"""
