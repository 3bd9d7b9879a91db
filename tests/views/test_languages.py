"""A report in Chinese, and in two languages: where pages lie, what is written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.views import site_data
from workbench.language import _, using
from workbench.session.site import SitePlan
from workbench.session.workspace import Workspace
from workbench.views.html.build import BuiltReport
from workbench.views.html.site import script_texts

VERSION = "studies/demo/h200/n1024/v2.html"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_data.plain(tmp_path_factory.mktemp("languages"))


def build(root: Path, out: Path, *languages: str) -> BuiltReport:
    return SitePlan(Workspace(root), (), out, languages=languages).build()


def pages(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*.html")}


def test_the_second_language_lies_below_the_first_which_is_as_if_alone(
    root: Path, tmp_path: Path
) -> None:
    alone, both = tmp_path / "alone", tmp_path / "both"
    one, two = build(root, alone), build(root, both, "en", "zh")
    assert two.index == both / "index.html"
    assert two.pages.written == 2 * one.pages.written
    own = pages(alone)
    assert VERSION in own
    assert pages(both) == {
        **own,
        **{f"zh/{path}": html for path, html in pages(both / "zh").items()},
    }
    assert pages(both / "zh").keys() == own.keys()
    assert b'<html lang="en">' in own[VERSION]
    there = pages(both)[f"zh/{VERSION}"].decode()
    assert '<html lang="zh-CN">' in there
    with using("zh"):
        assert _("What limits it") != "What limits it"
        assert f">{_('What limits it')} <" in there
    assert build(root, both).pages == (0, two.pages.written, 0)  # it has both from then on


def test_what_was_not_asked_for_any_more_is_removed(root: Path, tmp_path: Path) -> None:
    build(root, tmp_path, "en", "zh")
    done = build(root, tmp_path, "en")
    assert done.pages.written == 0
    assert done.pages.removed == done.pages.unchanged
    assert {path.name for path in (tmp_path / "zh").rglob("*") if path.is_file()} <= {".lock"}
    assert build(root, tmp_path).pages.unchanged == done.pages.unchanged


def test_one_language_takes_the_place_of_the_other(root: Path, tmp_path: Path) -> None:
    english = build(root, tmp_path, "en").pages.written
    assert build(root, tmp_path, "zh").pages == (english, 0, 0)
    assert 'lang="zh-CN"' in (tmp_path / VERSION).read_text(encoding="utf-8")
    with using("zh"):
        assert build(root, tmp_path).pages == (0, english, 0)
    assert build(root, tmp_path, "en").pages == (english, 0, 0)


def test_only_two_languages_know_of_each_other(root: Path, tmp_path: Path) -> None:
    build(root, tmp_path / "one", "en")
    build(root, tmp_path / "both", "en", "zh")

    def script(out: Path) -> str:
        return (out / "assets/workbench.js").read_text(encoding="utf-8").partition("\n")[0]

    assert "workbenchLanguage" not in script(tmp_path / "one")
    assert '"twin":"zh/"' in script(tmp_path / "both")
    there = script(tmp_path / "both/zh")
    assert '"twin":"../"' in there
    with using("zh"):
        told = [said for said in script_texts() if _(said) != said]
    assert "Compare any two" in told
    assert all(f'"{said}":' in there for said in told)
