"""What holds the project to its word: `tests.factories` and the folders beside it, by room."""
