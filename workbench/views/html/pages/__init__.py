"""One module for each kind of page: what stands on it, as a model for its template."""
