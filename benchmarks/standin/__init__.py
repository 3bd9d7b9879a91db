"""How many public CUDA programs `workbench run` runs: ``python -m benchmarks.standin``."""
