"""Plugins of all tests, those of features too: fixtures, a small project, a fake GPU."""

pytest_plugins = ["tests.fixtures", "tests.engines.stand_ins"]
