"""One small module per command: wiring only."""
