"""Figures as plain data: what is drawn is decided here, and the page's script draws it."""
