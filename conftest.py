"""What all tests share, those of features too: fixtures, a small project, a GPU to stand in."""

pytest_plugins = ["tests.fixtures", "tests.engines.stand_ins"]
