"""Pure analysis of profiles: comparison, attribution, timing statistics."""
