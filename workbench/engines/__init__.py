"""Engines: what produces a profile."""
