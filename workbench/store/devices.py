"""Names of devices."""

from __future__ import annotations

import re


def device_slug(name: str) -> str:
    """The folder name of a device: ``NVIDIA GeForce RTX 4090`` -> ``rtx-4090``.

    The vendor's and the brand's words are dropped because they carry nothing;
    an empty name gives ``unknown``.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return re.sub(r"^(?:(?:nvidia|tesla|geforce)-)+", "", slug) or "unknown"
