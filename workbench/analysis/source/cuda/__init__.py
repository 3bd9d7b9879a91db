"""A CUDA parse tree read into `symbols.Program`: what lines declare, use and govern."""
