"""Views of profiles: terminal and HTML. They format; they compute nothing."""
