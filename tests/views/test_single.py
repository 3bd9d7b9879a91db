"""One page as one file: nothing missing, nothing asked for, nothing that gets out."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views import site_data
from workbench.errors import UsageError
from workbench.project import find_project
from workbench.views.html.build import ReportFile, build_report
from workbench.views.html.single import NOTE, POLICY, _script, is_page_of_ours, pack


class Seen(HTMLParser):
    """Start tags with their attributes, text, and the code of inline scripts by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.code: dict[str, str] = {}
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append((tag, values))
        if tag == "script":
            self._script = values.get("id", f"script{len(self.code)}")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        else:
            self.code[self._script] = self.code.get(self._script, "") + data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [values for name, values in self.tags if name == tag]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = site_data.plain(tmp_path_factory.mktemp("site"))
    build_report(root / "reports", project=find_project(root))
    return root / "reports"


@pytest.fixture(scope="module")
def version(site: Path) -> str:
    return pack(site / "studies/demo/h200/n1024/v2.html", site)


def small(tmp_path: Path, body: str, head: str = "") -> str:
    """The packed form of a page that is made for the purpose."""
    site = tmp_path / "site"
    (site / "assets").mkdir(parents=True, exist_ok=True)
    page = site / "a" / "page.html"
    page.parent.mkdir(exist_ok=True)
    page.write_text(f"<!doctype html><html><head>{head}</head><body>{body}</body></html>")
    return pack(page, site)


def test_nothing_refers_to_another_file(version: str) -> None:
    seen = Seen(version)
    for tag, values in seen.tags:
        assert "src" not in values or values["src"].startswith("data:"), (tag, values)
        if tag == "link":
            assert values["href"].startswith("data:")
        if tag == "a" and "href" in values:
            assert values["href"].startswith(("#", "https://docs.nvidia.com/")), values


def test_stylesheet_and_script_are_inside(site: Path, version: str) -> None:
    for name in ("workbench.css", "workbench.js"):
        assert (site / "assets" / name).read_text(encoding="utf-8") in version
    assert version.count("<style>") == 2


def test_charts_bring_their_library_and_other_pages_do_not(site: Path, version: str) -> None:
    library = (site / "assets/plotly-basic.min.js").read_text(encoding="utf-8")
    assert library in version
    glossary = pack(site / "glossary.html", site)
    assert library not in glossary and len(glossary) < 400_000


def test_the_library_comes_before_what_draws_with_it(site: Path, version: str) -> None:
    seen = list(Seen(version).code)
    own = next(name for name, code in Seen(version).code.items() if "data-figure" in code)
    assert seen.index("plotly") < seen.index(own)
    # Scripts cannot be deferred once they are inside, so they come behind the content.
    assert version.index('id="plotly"') > version.index("</main>")


def test_the_content_is_what_it_was(site: Path, version: str) -> None:
    """Token by token: tags, attributes, text; but for links, the note and the assets."""
    before = Seen((site / "studies/demo/h200/n1024/v2.html").read_text(encoding="utf-8"))
    after = Seen(version)
    skipped = {"script", "style", "link", "meta", "a"}
    plain = [pair for pair in before.tags if pair[0] not in skipped]
    packed = [
        pair
        for pair in after.tags
        if pair[0] not in skipped and pair[1].get("class") != "note single"
    ]
    assert packed == plain
    unstyled = re.sub(r"<style>.*?</style>", "", version, flags=re.DOTALL)
    text = re.sub(r"\s+", "", Seen(unstyled).text)
    assert text.replace(re.sub(r"\s+", "", NOTE), "") == re.sub(r"\s+", "", before.text)
    data = {name: code for name, code in before.code.items() if name.endswith(("-data", "gutters"))}
    assert data and all(after.code[name] == code for name, code in data.items())


def test_links_within_stay_and_links_to_other_pages_are_inert(tmp_path: Path) -> None:
    body = (
        '<a href="#k">in</a><a href="page.html#L3">same</a>'
        '<a href="../a/page.html#L4">round</a>'
        '<a href="../glossary.html#x" title="a &quot;b&quot; &lt;c>" rel="next">term</a>'
        '<a href="page.html">top</a><a href="https://docs.nvidia.com/x?a=1&amp;b=2" rel="noopener">'
        'docs</a><a href="javascript:alert(1)">bad</a><a href="//evil.example/">worse</a>'
    )
    links = Seen(small(tmp_path, body)).all("a")
    assert [link.get("href") for link in links] == [
        "#k",
        "#L3",
        "#L4",
        None,
        None,
        "https://docs.nvidia.com/x?a=1&b=2",
        None,
        None,
    ]
    assert links[3] == {"title": 'a "b" <c>'}


def test_the_reader_is_told_why_links_are_off(version: str) -> None:
    assert Seen(version).text.count(NOTE) == 1


def test_a_policy_forbids_to_load_anything(version: str) -> None:
    policies = [
        values["content"]
        for values in Seen(version).all("meta")
        if values.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == [POLICY] and POLICY.startswith("default-src 'none'")
    # Before anything that it must hold for.
    assert version.index("Content-Security-Policy") < version.index("<style>")


def test_pictures_are_put_inside(tmp_path: Path) -> None:
    (tmp_path / "site" / "assets").mkdir(parents=True)
    (tmp_path / "site" / "assets" / "dot.png").write_bytes(b"\x89PNG")
    (image,) = Seen(small(tmp_path, '<img src="../assets/dot.png" alt="a">')).all("img")
    data = base64.b64encode(b"\x89PNG").decode()
    assert image == {"src": f"data:image/png;base64,{data}", "alt": "a"}


@given(
    st.lists(
        st.sampled_from(["</script>", "</SCRIPT ", "<!--", "<script", "-->", "alert(1)", "<", "é"])
    ).map("".join)
)
def test_no_script_ends_its_own_element(code: str) -> None:
    seen = Seen(f"<p>a</p>{_script(code)}<p>b</p>")
    assert [tag for tag, _ in seen.tags] == ["p", "script", "p"]
    (values,) = seen.all("script")
    if "src" in values:
        data = values["src"].partition("base64,")[2]
        assert base64.b64decode(data).decode() == code
    else:
        assert seen.code["script0"].strip() == code.strip()
        assert "<!--" not in code and "<script" not in code.lower()


def test_an_end_of_style_in_a_stylesheet_stays_a_string(tmp_path: Path) -> None:
    assets = tmp_path / "site" / "assets"
    assets.mkdir(parents=True)
    (assets / "x.css").write_text('p::before { content: "</style><img>" }')
    text = small(tmp_path, "<p>", '<link rel="stylesheet" href="../assets/x.css">')
    assert r'content: "<\/style><img>"' in text
    assert Seen(text).all("img") == []


def test_a_hostile_page_stays_text(tmp_path: Path) -> None:
    root = site_data.hostile(tmp_path)
    build_report(root / "reports", project=find_project(root))
    pages = list((root / "reports").rglob("*.html"))
    assert len(pages) >= 4
    for page in pages:
        seen = Seen(pack(page, root / "reports"))
        assert seen.all("img") == []
        assert not any(name.startswith("on") for _, values in seen.tags for name in values)
        assert all("pwned" not in code for name, code in seen.code.items() if "script" in name)


@pytest.mark.parametrize(
    "head",
    [
        '<link rel="stylesheet" href="../assets/gone.css">',
        '<script src="../../secret.js"></script>',
        '<script src="https://cdn.example/x.js"></script>',
        '<script src="//cdn.example/x.js"></script>',
    ],
)
def test_what_is_not_in_the_site_is_an_error(tmp_path: Path, head: str) -> None:
    (tmp_path / "secret.js").write_text("1")
    with pytest.raises(UsageError, match=r"page\.html needs .*, which is not in"):
        small(tmp_path, "", head)


def test_a_stylesheet_that_loads_a_file_is_an_error(tmp_path: Path) -> None:
    assets = tmp_path / "site" / "assets"
    assets.mkdir(parents=True)
    (assets / "x.css").write_text("p { background: url(dot.png) }")
    with pytest.raises(UsageError, match="loads another file"):
        small(tmp_path, "", '<link rel="stylesheet" href="../assets/x.css">')


def test_a_page_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        pack(tmp_path / "gone.html", tmp_path)
    (tmp_path / "bytes.html").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot read"):
        pack(tmp_path / "bytes.html", tmp_path)


def test_our_pages_are_known_by_their_head(site: Path, version: str, tmp_path: Path) -> None:
    alone = tmp_path / "v2.html"
    alone.write_text(version, encoding="utf-8")
    assert is_page_of_ours(alone) and is_page_of_ours(site / "index.html")
    (tmp_path / "thesis.html").write_text("<h1>Thesis</h1>")
    assert not is_page_of_ours(tmp_path / "thesis.html")
    assert not is_page_of_ours(tmp_path)


@pytest.mark.browser
def test_it_opens_alone_and_offline(
    site: Path, tmp_path: Path, chromium: Any, report: Callable[[str], Path]
) -> None:
    """Charts draw, the gutter switches, nothing is asked for, nothing is complained of."""
    folder = tmp_path / "reported"
    two = (ReportFile(report("ladder_full"), f"sgemm_v{i}") for i in (2, 3))
    build_report(folder, reports=tuple(two))
    kernel = min(folder.glob("files/*/launch*.html"))
    (step,) = folder.glob("files/*..*/index.html")
    ladder = site / "studies/demo/h200/n1024/index.html"
    pages = ((ladder, site), (kernel, folder), (step, folder), (site / "glossary.html", site))
    for page, root in pages:
        alone = tmp_path / "alone" / page.name
        alone.parent.mkdir(exist_ok=True)
        alone.write_text(pack(page, root), encoding="utf-8")
        context = chromium.new_context(offline=True)
        tab = context.new_page()
        complaints: list[str] = []
        asked: list[str] = []
        tab.on("console", lambda m, to=complaints: to.append(f"{m.type}: {m.text}"))
        tab.on("pageerror", lambda error, to=complaints: to.append(str(error)))
        tab.on("request", lambda request, to=asked: to.append(request.url))
        tab.goto(alone.as_uri())
        tab.wait_for_function(
            """() => [...document.querySelectorAll("[data-figure]")]
                .filter((node) => !node.closest("details:not([open]), [hidden]"))
                .every((node) => node.dataset.drawn)"""
        )
        if page is kernel:
            assert tab.locator("[data-drawn]").count() >= 1
            tab.locator("fieldset.gutters label").nth(1).click()
            chosen = tab.locator("fieldset.gutters label").nth(1).inner_text()
            assert tab.locator("table.src th.v").first.inner_text() == chosen
            assert tab.locator("tr#L28 .v span").count() <= 1
        tab.locator(".crumbs a, footer a").first.click()
        assert tab.url == alone.as_uri()
        context.close()
        assert [c for c in complaints if c.startswith(("error", "warning"))] == []
        assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [alone.as_uri()]
