"""What must be known of a profile before its numbers are read."""

from __future__ import annotations

from workbench.analysis import misread
from workbench.model import Profile


def remarks(profile: Profile) -> list[str]:
    """The notices of a profile's capture, and which of its counters ncu gets wrong."""
    wrong = (f"{text}." for text in misread.words(profile))
    return [*(notice.message for notice in profile.notices), *wrong]
