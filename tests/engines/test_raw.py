"""What is kept of a raw report: nameless, compressed, of bounded size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ncurep.report_builder import report, whole
from workbench.engines.ncu.collection import Keep
from workbench.engines.ncu.report import pack_report, private_words
from workbench.errors import DataError
from workbench.store.codec import unpack

NAME = Path("x.ncu-rep")


@pytest.mark.parametrize("keep", ["auto", "always"])
def test_host_name_and_addresses_are_taken_out(keep: Keep) -> None:
    raw = report(*whole())
    assert b"secret-host" in raw and b"10.1.2.3" in raw
    kept = pack_report(raw, NAME, keep, ())
    assert kept.packed is not None and kept.notice is None
    plain = unpack(kept.packed)
    assert b"secret-host" not in plain and b"10.1.2.3" not in plain
    assert b"NVIDIA H200" in plain


def test_a_folder_of_the_user_keeps_it_out_unless_asked_for() -> None:
    raw = report(*whole())
    assert b"/usr/bin/app" in raw
    kept = pack_report(raw, NAME, "auto", ("/usr/bin/app", "/home/me"))
    assert kept.packed is None and kept.notice is not None
    assert "names /usr/bin/app; --raw keeps it" in kept.notice.message
    assert pack_report(raw, NAME, "always", ("/usr/bin/app",)).packed is not None


def test_a_report_above_the_limit_is_not_kept_unless_asked_for() -> None:
    raw = report(*whole())
    size = len(pack_report(raw, NAME, "always", ()).packed or b"")
    assert pack_report(raw, NAME, "auto", (), limit=size).packed is not None
    for limit in (size - 1, size // 8):
        kept = pack_report(raw, NAME, "auto", (), limit=limit)
        assert kept.packed is None and kept.notice is not None
        assert kept.notice.code == "raw-too-large"
        assert "is the limit; --raw keeps it" in kept.notice.message


def test_what_is_not_kept_is_not_even_looked_at() -> None:
    assert pack_report(b"no report", NAME, "never", ()).packed is None
    with pytest.raises(DataError):
        pack_report(b"no report", NAME, "auto", ())


def test_short_words_prove_nothing() -> None:
    assert private_words(b"a vm at /home/me", ("vm", "/home/me", "absent")) == ("/home/me",)
