"""``workbench export figure``: the pages' figures as files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from workbench.cli import app
from workbench.errors import MissingError, UsageError
from workbench.pictures.figures import KINDS, Kind, card_of, figure_of
from workbench.pictures.saved import drawn, picture
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection

REPO = Path(__file__).resolve().parents[3]
TARGETS: dict[Kind, tuple[str, ...]] = {"step": ("sgemm/v2", "sgemm/v3")}


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_picture_has_the_marks_of_the_pages_figure(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPO)
    targets = TARGETS.get(kind, ("scale_add",))
    out = tmp_path / "x.svg"
    done = CliRunner().invoke(app, ["export", "figure", kind, *targets, "--out", str(out)])
    assert (done.exit_code, done.output) == (0, f"{out}\n"), done.output
    text = out.read_text(encoding="utf-8")
    figure = figure_of(CoreSession(REPO), kind, targets, Selection())
    assert text.encode() == picture(figure, "svg")  # the same figure is the same file
    if kind == "ladder":
        assert all(f">{name}</" in text for bars in figure.spec["data"] for name in bars["y"])
    axis = figure.spec["layout"]["xaxis"]
    assert f">{axis['ticktext'][0]}</" in text and axis["title"]["text"].split(";")[0] in text
    assert picture(figure, "png").startswith(b"\x89PNG")


@pytest.mark.parametrize("targets", [("conv2d_tile",), ("sgemm/v2", "sgemm/v3")])
def test_a_card_is_a_picture_of_one_size(targets: tuple[str, ...]) -> None:
    card = card_of(CoreSession(REPO), targets, Selection())
    assert (b">cudnn  " if len(targets) == 1 else b"float As[T][T + 1];") in card
    assert drawn(card, "png")[16:24] == (1200).to_bytes(4, "big") + (630).to_bytes(4, "big")


@pytest.mark.parametrize("kind", ["ladder", "card", "sweep", "roofline"])
def test_a_study_without_records_has_no_figure(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(app, ["init", "--study", "double"], catch_exceptions=False)
    with pytest.raises(UsageError, match="nothing is recorded for double"):
        CliRunner().invoke(app, ["plot", kind, "double"], catch_exceptions=False)


def test_what_it_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(REPO)
    for words in (["step", "v2"], ["ladder", "scale_add", "conv2d"], ["ladder", "--out", "x.gif"]):
        with pytest.raises(UsageError):
            CliRunner().invoke(app, ["export", "figure", *words], catch_exceptions=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingError) as error:
        CliRunner().invoke(
            app,
            ["export", "figure", "ladder", "scale_add", "--out", str(tmp_path / "x.svg")],
            catch_exceptions=False,
        )
    assert "pip install" in error.value.hint and not list(tmp_path.iterdir())
