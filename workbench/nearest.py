"""The nearest right name, for errors that a misspelled one causes."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """The name out of `names` that is most like `name`; empty where none is like it."""
    # difflib is imported here because only a mistake needs it.
    from difflib import get_close_matches

    candidates = list(dict.fromkeys(names))
    close = get_close_matches(name, candidates, n=1, cutoff=0.55)
    if close:
        return close[0]
    # A wrong case alone ("m" for "M") shares no character, so difflib scores it zero.
    return next((other for other in candidates if other.lower() == name.lower()), "")


def did_you_mean(name: str, names: Iterable[str], kind: str = "known") -> str:
    """A hint sentence: the nearest name, or else all of them.

    Args:
        name: What was written.
        names: What could have been written.
        kind: What the names are, for the list: ``parameters``, ``versions``.
    """
    candidates = list(dict.fromkeys(names))
    close = nearest(name, candidates)
    if close:
        return f"Did you mean `{close}`?"
    if not candidates:
        return f"There are no {kind}."
    shown = ", ".join(candidates[:24]) + (", …" if len(candidates) > 24 else "")
    return f"Known {kind}: {shown}."
