"""A real Slurm on this machine, and what `workbench … --on slurm` does on it."""
