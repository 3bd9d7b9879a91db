"""The report without a browser: what is on the pages, and what is written when."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import threading
from collections.abc import Callable
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.factories import make_instructions, make_launch, make_metrics, make_profile, make_timing
from tests.views import large_data, site_data
from workbench.commands.report import command
from workbench.errors import DataError, MissingError, UsageError
from workbench.ladder import summaries
from workbench.model import InstructionTable, SourceFile
from workbench.project import find_project
from workbench.store import Store, codec
from workbench.store.codec import read_record
from workbench.views.html import build as build_module
from workbench.views.html.build import BuiltReport, ReportFile, build_report
from workbench.views.html.site import Writing


class _Read(HTMLParser):
    """What the tests ask of a page: text, ids, links, attributes, embedded JSON."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.json: dict[str, Any] = {}
        self.text = ""
        self._script: str | None = None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append((tag, values))
        if "id" in values:
            self.ids.append(values["id"])
        self.links += [values[name] for name in ("href", "src") if name in values]
        if tag == "script":
            self._script = values.get("id", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        elif data.strip():
            self.json[self._script] = json.loads(data)


@lru_cache(maxsize=64)
def _read(path: Path, _written: int, _size: int) -> _Read:
    return _Read(path)


def Page(path: Path) -> _Read:
    """A page, read once for as long as nobody writes it anew."""
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


def build(root: Path, **options: Any) -> BuiltReport:
    return build_report(root / "reports", project=find_project(root), **options)


def beside(page: Path) -> Any:
    """What the script beside a page assigns."""
    text = page.with_name(page.stem + ".code.js").read_text(encoding="utf-8")
    head, _, data = text.partition("=")
    assert head == "window.workbenchCode"
    return json.loads(data.rstrip(";\n"))


def pages(root: Path) -> list[Path]:
    return sorted((root / "reports").rglob("*.html"))


def ladder(root: Path) -> Path:
    return root / "reports/studies/demo/h200/n1024"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = site_data.plain(tmp_path_factory.mktemp("site"))
    build(root)
    return root


@pytest.mark.slow
def test_every_link_leads_somewhere(site: Path) -> None:
    checked = 0
    for path in pages(site):
        page = Page(path)
        for link in page.links:
            if link.startswith(("https://docs.nvidia.com/", "data:")):
                continue
            target, _, anchor = link.partition("#")
            other = (path.parent / target).resolve() if target else path
            assert other.is_file(), (path.name, link)
            if anchor:
                assert anchor in Page(other).ids if other != path else anchor in page.ids, link
            checked += 1
    assert checked > 100


def test_nothing_is_asked_of_a_network(site: Path) -> None:
    for path in pages(site):
        for tag, attributes in Page(path).tags:
            if tag != "a":
                for name in ("src", "href"):
                    assert not attributes.get(name, "").startswith(("http", "//")), attributes


def test_a_page_waits_for_two_small_scripts(site: Path, repo: Path) -> None:
    """The charts' library and the instructions are read when the page has become usable."""
    assets = repo / "workbench/views/html/assets"
    small = [assets / name for name in ("workbench.js", "around.js")]
    assert sum(path.stat().st_size for path in small) < 53_000
    for path in pages(site):
        scripts = [a for tag, a in Page(path).tags if tag == "script" and "src" in a]
        started = [a for a in scripts if a.get("type", "") != "text/x-later"]
        assert [Path(a["src"]).name for a in started] == [each.name for each in small]
        assert all("defer" in each for each in started)


def test_ids_are_unique_and_headings_in_order(site: Path) -> None:
    for path in pages(site):
        page = Page(path)
        assert len(page.ids) == len(set(page.ids)), path
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_pages_can_be_used_without_seeing_them(site: Path) -> None:
    for path in pages(site):
        page = Page(path)
        labels = {attributes.get("for") for tag, attributes in page.tags if tag == "label"}
        kinds = [tag for tag, _ in page.tags]
        assert kinds.count("main") == 1
        assert ("html", {"lang": "en"}) in page.tags
        for tag, attributes in page.tags:
            if tag == "input" and attributes["type"] == "search":
                assert attributes["id"] in labels
            if tag == "nav" or attributes.get("role") in ("region", "img"):
                assert attributes.get("aria-label"), (path.name, attributes)
            if "scroll" in attributes.get("class", "").split():
                assert attributes.get("tabindex") == "0", "a scrolled box needs the keyboard"
            if tag == "th":
                assert attributes.get("scope"), (path.name, attributes)


def test_figures_are_valid_for_plotly(site: Path) -> None:
    from plotly.graph_objects import Figure

    def concrete(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: concrete(item) for key, item in value.items()}
        if isinstance(value, list):
            return [concrete(item) for item in value]
        return "#123456" if isinstance(value, str) and value.startswith("@") else value

    seen = 0
    for path in pages(site):
        for name, spec in Page(path).json.items():
            if name.endswith("-data"):
                figure = concrete(spec)
                Figure(data=figure["data"], layout=figure["layout"])
                Figure(layout=figure.get("narrow", {}))
                seen += 1
    assert seen >= 5


def test_strings_of_a_profile_never_become_markup(tmp_path: Path) -> None:
    root = site_data.hostile(tmp_path)
    build(root)
    for path in pages(root):
        html = path.read_text(encoding="utf-8")
        assert "<img src=x" not in html
        assert "window.pwned=1</script>" not in html
        assert "49" not in Page(path).text or "{{7*7}}" in html  # no template runs in data
        assert not [link for link in Page(path).links if link.startswith("javascript:")]


def test_a_launch_without_instructions_or_rules_is_shown(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    launch = make_launch(instructions=InstructionTable(), rules=(), metrics={})
    Store(tmp_path / "profiles").save(make_profile(launches=(launch,), build=None, sources=()))
    build(tmp_path)
    text = Page(ladder(tmp_path) / "v2.html").text
    assert "The report holds no throughput counters." in text
    assert "No point:" in text
    assert "The profile does not say how the code was built." in text


def test_a_profile_without_a_measured_launch_says_so(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    launch = make_launch(profiled=False, metrics={}, rules=())
    Store(tmp_path / "profiles").save(make_profile(launches=(launch,)))
    build(tmp_path)
    assert "No launch of this profile was measured." in Page(ladder(tmp_path) / "v2.html").text


def test_a_source_that_the_report_only_names_is_listed(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    Store(tmp_path / "profiles").save(make_profile(sources=(SourceFile(path="far/away.cu"),)))
    build(tmp_path)
    page = Page(ladder(tmp_path) / "v2.html")
    assert "names this file but does not hold its text" in page.text
    assert {"L3", "L4", "L5"} <= set(page.ids)


def test_a_library_kernel_shows_its_caller_without_a_gutter(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    table = msgspec.structs.replace(make_instructions(), file=(-1,) * 5, line=(0,) * 5)
    profile = make_profile(
        version="cublas",
        launches=(make_launch(kernel="void cutlass::Kernel<a<b>>", instructions=table),),
        sources=(SourceFile(path="kernels/demo/cublas.py", text="def prepare():\n    pass\n"),),
    )
    Store(tmp_path / "profiles").save(profile)
    build(tmp_path)
    page = Page(ladder(tmp_path) / "cublas.html")
    assert "k0-gutters" not in page.json
    assert "def prepare():" in page.text
    assert "5 SASS instructions" in page.text
    assert "The report attributes no samples to source lines." in page.text
    assert "void cutlass::Kernel<a<b>>" in page.text


def test_a_long_file_shows_the_lines_around_its_counters(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    text = "\n".join(f"int line{n};" for n in range(1, 3001))
    table = msgspec.structs.replace(make_instructions(), line=(1500, 1500, 1501, 1502, 1502))
    profile = make_profile(
        sources=(SourceFile(path="long.cu", text=text),),
        launches=(make_launch(instructions=table),),
    )
    Store(tmp_path / "profiles").save(profile)
    build(tmp_path)
    page = Page(ladder(tmp_path) / "v2.html")
    assert "L1475" in page.ids and "L1527" in page.ids
    assert "L1474" not in page.ids
    assert 'data-left="0 1 1474"' in (ladder(tmp_path) / "v2.html").read_text()
    assert "lines 1–1474: no counters there" in page.text
    assert "lines 1528–3000: no counters there" in page.text


def test_a_long_kernel_shows_its_hottest_instructions(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    count = 5000
    table = msgspec.structs.replace(
        make_instructions(smsp__pcsamp_sample_count={4999: 9}, inst_executed={0: 1}),
        address=tuple(range(0, 16 * count, 16)),
        text=("NOP",) * count,
        file=(0,) * count,
        line=(3,) * count,
    )
    Store(tmp_path / "profiles").save(make_profile(launches=(make_launch(instructions=table),)))
    build(tmp_path)
    page = Page(ladder(tmp_path) / "v2.html")
    assert "k0-i4999" in page.ids and "k0-i0" in page.ids
    assert "k0-i4000" not in page.ids
    assert "5,000 SASS instructions" in page.text
    code = beside(ladder(tmp_path) / "v2.html")["k0"]["sass"]
    assert len(code["text"].split("\n")) == len(code["line"]) == count
    assert code["shares"][code["samples"][4999]] == ["100%", "100.0"]
    assert code["offset"] == 16


def test_the_file_beside_a_page_goes_with_it(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    build(root)
    page = ladder(root) / "v2.html"
    code = page.with_name("v2.code.js")
    before = code.read_bytes()
    assert b"<" not in before
    code.unlink()
    assert build(root).pages.written == 1
    assert code.read_bytes() == before
    code.write_bytes(before[:-9])  # what a crash of the machine may leave
    assert build(root).pages.written == 1
    assert code.read_bytes() == before
    for path in (root / "profiles/h200/demo/v2").iterdir():
        path.unlink()
    build(root)
    assert not code.exists() and not page.exists()


def test_many_pages_are_written_by_several_processes_as_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.views.html import pool as html_pool

    root = site_data.plain(tmp_path / "project")
    store = Store(root / "profiles")
    for problem in ("n2048", "n4096"):
        store.save(make_profile(version="v0", problem=problem))
    build(root)
    alone = {path: path.read_bytes() for path in pages(root)}
    monkeypatch.setattr(html_pool, "_MANY_PAGES", 1)
    monkeypatch.setattr(html_pool, "_processors", lambda: 2)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert build(root, how=Writing(force=True)).pages.written == len(alone)
    assert {path: path.read_bytes() for path in pages(root)} == alone
    assert build(root).pages.written == 0
    damaged = next((root / "profiles/h200/demo/v0").glob("n4096.ncu.*"))
    damaged.write_bytes(b"not a profile")
    (error,) = build(root, how=Writing(force=True)).damaged
    assert "n4096" in error.message and error.hint


@pytest.mark.slow
def test_pages_of_an_unrolled_kernel_stay_within_their_size(tmp_path: Path) -> None:
    root = large_data.ladder(
        tmp_path,
        versions=("v0", "v1"),
        problems=("small", "large"),
        instruction_count=6000,
        lines=600,
    )
    build(root)
    sizes = {path.name: path.stat().st_size for path in pages(root)}
    assert max(sizes.values()) < 1_500_000
    for name in ("index.html", "glossary.html"):
        assert sizes[name] < 400_000
    (page,) = root.glob("reports/studies/*/*/large/v1.html")
    assert page.with_name("v1.code.js").stat().st_size < 1_500_000
    code = beside(page)["k1"]  # the unfolding kernel comes first, and is small
    assert len(code["sass"]["text"].split("\n")) == 6000
    assert len(code["ptx"]["text"].split("\n")) > 6000


def test_stale_only_where_the_source_changed(repo: Path, tmp_path: Path) -> None:

    from workbench.study.folder import load_study, source_hash

    shutil.copytree(repo / "kernels/sgemm", tmp_path / "kernels/sgemm")
    site_data.study(tmp_path)
    project = find_project(tmp_path)
    assert project is not None
    version = load_study(project, "sgemm").versions["v0"]
    now = source_hash(project, version)
    store = Store(tmp_path / "profiles")
    store.save(make_profile(study="sgemm", version="v0", source_hash=now))
    store.save(make_profile(study="sgemm", version="v1", source_hash="f" * 64))
    build(tmp_path)
    folder = tmp_path / "reports/studies/sgemm/h200/n1024"
    assert "stale" not in Page(folder / "v0.html").text
    assert "stale: the source has changed since" in Page(folder / "v1.html").text
    page = Page(folder / "v0.html")
    assert version.title in page.text
    assert version.change in page.text


def test_a_broken_study_does_not_hide_what_was_measured(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    (root / "kernels/demo").mkdir(parents=True)
    (root / "kernels/demo/study.py").write_text("title = ", encoding="utf-8")
    build(root)
    assert "The study could not be read" in Page(ladder(root) / "index.html").text


def test_a_second_run_writes_nothing(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    first = build(root).pages
    before = {path: path.stat().st_mtime_ns for path in (root / "reports").rglob("*")}
    second = build(root).pages
    assert (first.written, second.written, second.unchanged) == (7, 0, 7)
    after = {path: path.stat().st_mtime_ns for path in (root / "reports").rglob("*")}
    assert {p: t for p, t in after.items() if p.is_file()} == {
        p: t for p, t in before.items() if p.is_file()
    }


def seen_by_the_profiler(root: Path, version: str, seconds: float) -> None:
    """A profile and no time: its duration says where the version stands on the ladder's path."""
    metrics = make_metrics(**{"gpu__time_duration.sum": seconds})
    Store(root / "profiles").save(
        make_profile(version=version, launches=(make_launch(metrics=metrics),))
    )


def test_nothing_of_an_unchanged_study_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site_data.study(tmp_path)
    for version, seconds in (("v0", 3e-6), ("v1", 2e-6), ("v2", 1e-6)):
        seen_by_the_profiler(tmp_path, version, seconds)
    build(tmp_path)
    read: list[Path] = []

    def noted(path: Path) -> bytes:
        read.append(path)
        return read_record(path)

    monkeypatch.setattr(summaries, "read_record", noted)
    monkeypatch.setattr(codec, "read_record", noted)
    assert build(tmp_path).pages.written == 0
    assert read == []


def test_a_profile_that_was_replaced_moves_the_path_of_the_others(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    for version, seconds in (("v0", 3e-6), ("v1", 2e-6), ("v2", 1e-6)):
        seen_by_the_profiler(tmp_path, version, seconds)
    build(tmp_path)
    file = tmp_path / "profiles/h200/demo/v2/n1024.ncu.json.zst"
    page, fast = ladder(tmp_path) / "v1.html", file.read_bytes()
    before = page.read_bytes()
    seen_by_the_profiler(tmp_path, "v2", 4e-6)  # no longer the fastest, so none follows v1
    build(tmp_path)
    following = "v2 ›".encode()
    assert following in before and following not in page.read_bytes()
    file.write_bytes(fast)
    build(tmp_path)
    assert page.read_bytes() == before


def test_one_new_profile_renders_its_page_its_parents_and_the_ladder(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    build(root)
    metrics = make_metrics(**{"sm__throughput.avg.pct_of_peak_sustained_elapsed": 11.0})
    profile = make_profile(version="v2", launches=(make_launch(metrics=metrics),))
    Store(root / "profiles").save(profile)
    outcome = build(root).pages
    # The parent's page scores its advice by it. The index is made of one-line summaries, and
    # none of those changed.
    assert (outcome.written, outcome.unchanged) == (4, 3)
    assert "11.0%" in Page(ladder(root) / "v2.html").text


def test_a_new_time_renders_the_whole_ladder(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    build(root)
    Store(root / "profiles").save_timing(make_timing(200e-6, version="v2", flops=2 << 30))
    outcome = build(root).pages
    assert (outcome.written, outcome.unchanged) == (6, 1)
    assert "200 µs" in Page(root / "reports/index.html").text


def test_a_page_whose_profile_is_gone_is_removed(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    build(root)
    for path in (root / "profiles/h200/demo/v2").iterdir():
        path.unlink()
    outcome = build(root).pages
    assert outcome.removed == 2
    assert not (ladder(root) / "v2.html").exists()
    assert not (ladder(root) / "v0..v2.html").exists()
    assert (ladder(root) / "v0.html").exists()


def test_a_study_that_is_gone_takes_its_folder_along(tmp_path: Path) -> None:

    root = site_data.plain(tmp_path)
    Store(root / "profiles").save(make_profile(study="other"))
    build(root)
    assert (root / "reports/studies/other").is_dir()
    shutil.rmtree(root / "profiles/h200/other")
    build(root)
    assert not (root / "reports/studies/other").exists()
    assert ladder(root).is_dir()


def test_what_a_killed_run_wrote_does_not_stay_where_its_input_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends after it wrote pages; the next one meets the files that were there before."""
    root = site_data.plain(tmp_path)
    build(root)
    file = root / "profiles/h200/demo/v2/n1024.ncu.json.zst"
    page, old = ladder(root) / "v2.html", file.read_bytes()
    text, time = page.read_bytes(), file.stat().st_mtime_ns
    metrics = make_metrics(**{"sm__throughput.avg.pct_of_peak_sustained_elapsed": 11.0})
    Store(root / "profiles").save(
        make_profile(version="v2", launches=(make_launch(metrics=metrics),))
    )
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(build_module._StudyPages, "keep", interrupt)
        build(root)
    assert page.read_bytes() != text
    file.write_bytes(old)
    os.utime(file, ns=(time, time))
    build(root)
    assert page.read_bytes() == text


def interrupt(_: object) -> None:
    raise KeyboardInterrupt


def test_one_study_leaves_the_others_alone(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    Store(root / "profiles").save(make_profile(study="other"))
    build(root)
    build(root, studies=("other",))
    assert (ladder(root) / "v2.html").exists()
    assert "demo" in Page(root / "reports/index.html").text


def test_a_lost_page_is_written_again(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    build(root)
    (ladder(root) / "v2.html").unlink()
    assert build(root).pages.written == 1
    assert (ladder(root) / "v2.html").exists()


def test_force_renders_everything(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    build(root)
    assert build(root, how=Writing(force=True)).pages.written == 7


def test_a_damaged_manifest_of_ours_is_rewritten(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    build(root)
    (root / "reports/.manifest.json").write_bytes(b'{"format": "workb')
    assert build(root).pages.written == 7
    assert build(root).pages.written == 0


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    (root / "reports").mkdir()
    (root / "reports/thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(UsageError, match="was not written by") as error:
        build(root)
    assert "--out" in error.value.hint
    assert [path.name for path in (root / "reports").iterdir()] == ["thesis.tex"]


def test_a_folder_kept_by_git_counts_as_empty(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    (root / "reports").mkdir()
    (root / "reports/.gitignore").write_text("*\n", encoding="utf-8")
    assert build(root).pages.written == 7


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    (root / "reports").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="is not a folder"):
        build(root)


@pytest.mark.parametrize("kind", ["ncu", "time"])
def test_a_damaged_file_is_named_and_left_out(tmp_path: Path, kind: str) -> None:
    root = site_data.plain(tmp_path)
    build(root)
    whole = {path: path.read_text(encoding="utf-8") for path in pages(root)}
    path = root / f"profiles/h200/demo/v2/n1024.{kind}.json.zst"
    kept = path.read_bytes()
    path.write_bytes(kept[:-40])
    (error,) = build(root).damaged
    assert str(path) in error.message and "damaged" in error.message
    assert (ladder(root) / "v0.html").exists()
    assert (ladder(root) / "v2.html").exists() == (kind == "time")
    again = build(root)
    assert again.pages.written == 0, "what is known to be damaged changes nothing"
    assert [each.message for each in again.damaged] == [error.message]
    path.write_bytes(kept)
    assert not build(root).damaged
    assert {path: path.read_text(encoding="utf-8") for path in pages(root)} == whole


def test_nothing_but_damage_is_an_error(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    for path in root.rglob("profiles/**/*.json.zst"):
        path.write_bytes(b"x")
    with pytest.raises(DataError, match="files cannot be read"):
        build(root, studies=("demo",))
    with pytest.raises(DataError, match="files cannot be read"):
        build(root, studies=("demo/v0..v2",))
    assert len(build(root).damaged) > 1


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (os.mkfifo, "is a pipe, not a file"),
        (os.mkdir, "is a folder, not a file"),
        (lambda path: path.symlink_to("nothing"), "a link that points to no file"),
    ],
)
def test_what_is_no_profile_holds_nothing_up(
    tmp_path: Path, put: Callable[[Path], None], said: str
) -> None:
    root = site_data.plain(tmp_path)
    path = root / "profiles/h200/demo/v2/n1024.ncu.json.zst"
    path.unlink()
    put(path)
    (error,) = build(root).damaged
    assert said in error.message


def test_a_study_without_profiles_names_the_nearest(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    with pytest.raises(UsageError, match="nothing is recorded for study `dmeo`") as error:
        build(root, studies=("dmeo",))
    assert "demo" in error.value.hint


def test_an_empty_project_gets_an_index_that_says_what_to_do(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    assert build(tmp_path).pages.written == 2
    assert "Nothing is recorded yet" in Page(tmp_path / "reports/index.html").text


def test_command_says_where_the_site_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site_data.plain(tmp_path))
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0, result.output
    assert result.output == (
        f"7 pages written, 0 unchanged\n{tmp_path / 'reports' / 'index.html'}\n"
    )
    again = CliRunner().invoke(command, ["demo", "--out", "elsewhere", "--force"])
    assert again.stdout.endswith(f"elsewhere{os.sep}index.html\n")


def test_report_files_need_no_project(report: Any, tmp_path: Path) -> None:
    path = report("ladder_focus")
    out = tmp_path / "site"
    first = build_report(out, reports=(ReportFile(path),))
    assert first.pages.written == 8  # overview, five launches, glossary, index
    again = build_report(out, reports=(ReportFile(path),))
    assert (again.pages.written, again.pages.unchanged) == (0, 8)
    (overview,) = out.glob("files/*/index.html")
    assert "sgemm_v3" in Page(overview).text
    assert "ladder_focus.ncu-rep" in Page(out / "index.html").text
    one = build_report(out, reports=(ReportFile(path, "sgemm_v3"),))
    assert one.pages.written == 3  # overview, the launch, and the index that names it


@pytest.mark.parametrize(
    "name",
    [
        "gtx1660s-ncu2021.1-unprofiled-action",
        "v100-ncu2022.2-source-rules",
        "a10g-ncu2023.1-nan-action",
        "rtx4090-ncu2023.1-transpose-source-no-rules",
        "gh200-ncu2025.2-no-instruction-metrics",
        "ladder_full",
    ],
)
def test_reports_from_elsewhere_become_pages(report: Any, tmp_path: Path, name: str) -> None:
    build_report(tmp_path, reports=(ReportFile(report(name)),))
    for path in tmp_path.rglob("*.html"):
        page = Page(path)
        assert len(page.ids) == len(set(page.ids)), path
        assert path.stat().st_size < 400_000, path
        for link in page.links:
            target, _, anchor = link.partition("#")
            if not target and anchor:
                assert anchor in page.ids, (path.name, link)


def test_a_report_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.ncu-rep") as error:
        build_report(tmp_path / "site", reports=(ReportFile(tmp_path / "none.ncu-rep"),))
    assert error.value.hint


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(MissingError, match="cannot write"):
        build_report(tmp_path / "file" / "site")


def test_a_full_disk_is_an_error_and_the_old_page_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.disk import writing

    root = site_data.plain(tmp_path)
    build(root)
    before = (ladder(root) / "v2.html").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "_written", full)
    with pytest.raises(MissingError, match="no space left"):
        build(root, how=Writing(force=True))
    assert (ladder(root) / "v2.html").read_bytes() == before


def test_templates_hold_no_arithmetic(repo: Path) -> None:
    folder = repo / "workbench/views/html/templates"
    for path in folder.glob("*.html"):
        source = path.read_text(encoding="utf-8")
        for code in re.findall(r"\{[{%](.*?)[%}]\}", source, re.DOTALL):
            code = re.sub(r'"[^"]*"', '""', code)
            # "~" joins text; "-" appears in whitespace control only.
            assert not re.search(r"\w\s*[*/]\s*\w|\d\s*[-+]\s*\w|\w\s+[-+]\s+\d|\*\*|//", code), (
                code
            )
            assert not re.search(r"\|\s*(round|sum|int|float|safe)\b", code), code


def test_a_summary_of_an_earlier_program_is_written_anew(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    store = Store(root / "profiles")
    for version in ("v0", "v1"):
        store.save(make_profile(study="other", version=version))
    build(root)
    manifest = root / "reports/.manifest.json"
    kept = json.loads(manifest.read_bytes())
    (page,) = [p for p in kept["pages"].values() if p.get("summary", {}).get("study") == "other"]
    del page["summary"]["work"]  # as it once was
    page["key"] = page["exact"] = "of another program"
    manifest.write_text(json.dumps(kept), encoding="utf-8")
    # Only one study is asked for; the index shows both all the same.
    build_report(root / "reports", project=find_project(root), studies=("demo",))
    index = (root / "reports/index.html").read_text(encoding="utf-8")
    assert "studies/other/" in index and "studies/demo/" in index
