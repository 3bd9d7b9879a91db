"""That something takes long is said after a second, and not before."""

from __future__ import annotations

import signal
import sys

import pytest

from workbench.views.terminal.progress import Progress


def test_what_takes_long_says_for_how_long_and_is_taken_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    before = signal.getsignal(signal.SIGALRM)
    progress = Progress()
    progress.count(3, 7)
    with progress.slowly("writing pages"):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1.0
        assert capsys.readouterr() == ("", "")
        for _ in range(2):
            signal.raise_signal(signal.SIGALRM)
        said = "".join(f"\r\x1b[Kwriting pages … {n} s, 3/7" for n in (1, 2))
        assert capsys.readouterr() == ("", said)
    assert capsys.readouterr() == ("", "\r\x1b[K")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == before


def test_where_there_is_no_terminal_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with Progress().slowly("writing pages"):
        assert signal.getsignal(signal.SIGALRM) == before
    assert capsys.readouterr() == ("", "")
