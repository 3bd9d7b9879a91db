"""Versions are found by their files; what is wrong with one is named with its line."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from tests.study_maker import BASELINE, STUDY, VERSION, Maker
from workbench.counters import catalog
from workbench.errors import UsageError
from workbench.specs import Version
from workbench.study.sources import _counter_ids, _link, load_versions


def test_versions_are_ordered_by_number_then_baselines_by_name(maker: Maker) -> None:
    plain = VERSION.replace('parent = ""\n', "")
    for name in ("v10_ten.cu", "v2_two.cu", "v0.cu"):
        maker.write(name, plain)
    maker.write("v3_python.py", BASELINE.replace("baseline = true\n", ""))
    maker.write("zlib.py", BASELINE)
    maker.write("blas.cu", plain.replace('change = "c"', "baseline = true"))
    maker.write("helper.py", "x = 1\n")
    maker.write("helper.cu", "int x;\n")
    maker.write("notes.txt", "no")
    study = maker.load()
    assert list(study.versions) == ["v0", "v2", "v3", "v10", "blas", "zlib"]
    assert [each.parent for each in study.versions.values()] == [None, "v0", "v2", "v3", None, None]
    ten = study.version("v10_ten")
    assert (ten.id, ten.name, ten.path) == ("v10", "v10_ten", "kernels/s/v10_ten.cu")
    assert ten.kind == "cuda"
    assert study.versions["v3"].kind == "python"
    assert study.baseline is study.versions["blas"]
    assert ten.text == plain


def test_work_is_counted_in_operations_where_results_are_integers(maker: Maker) -> None:
    maker.write("v0.cu", VERSION.replace('parent = ""\n', ""))
    assert maker.load().work == "flop"
    maker.write("study.py", STUDY.replace(',), "float32")}', ',), "int32")}'))
    assert maker.load().work == "op"


def test_a_study_without_a_baseline_has_none(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    assert maker.load().baseline is None


def test_a_parent_may_be_named_by_its_file(maker: Maker) -> None:
    maker.write("v0_a.cu", VERSION)
    maker.write("v1_b.cu", VERSION)
    maker.write("v2_c.cu", VERSION.replace('parent = ""', 'parent = "v0_a"'))
    study = maker.load()
    assert study.version("v1").parent is None  # parent = "" starts a ladder of its own
    assert study.version("v2").parent == "v0"


@pytest.mark.parametrize(
    ("files", "message", "hint"),
    [
        (
            {"v0_a.cu": VERSION, "v00_b.cu": VERSION},
            "kernels/s/v0_a.cu: version v0 is also defined by kernels/s/v00_b.cu",
            "another number",
        ),
        ({"v0_a.cu": "int x;\n"}, "kernels/s/v0_a.cu:1: no front matter", "workbench new"),
        (
            {"w0_a.cu": VERSION},
            "kernels/s/w0_a.cu:1: neither a version nor a baseline",
            "v<number>_w0_a.cu",
        ),
        (
            {"v0.cu": VERSION, "v1.cu": VERSION.replace('parent = ""', 'parent = "v9"')},
            "kernels/s/v1.cu:3: unknown parent `v9`",
            "Known versions: v0, v1",
        ),
        (
            {
                "v0.cu": VERSION.replace('parent = ""', 'parent = "v2"'),
                "v1.cu": VERSION.replace('parent = ""\n', ""),
                "v2.cu": VERSION.replace('parent = ""\n', ""),
            },
            "kernels/s/v0.cu:3: a cycle of parents: v0 → v2 → v1 → v0",
            "earlier version",
        ),
        (
            {"v0.cu": VERSION.replace('parent = ""', 'parent = "v0"')},
            "kernels/s/v0.cu:3: a cycle of parents: v0 → v0",
            "earlier version",
        ),
        (
            {"v0.cu": VERSION.replace('kernel = "scale"', 'kernel = "scael"')},
            "kernels/s/v0.cu:15: there is no kernel `scael` in this file",
            "Did you mean `scale`?",
        ),
        (
            {"v0.cu": VERSION.replace('kernel = "scale"', 'kernel = "sca"') + "int sca1, _sca;\n"},
            "kernels/s/v0.cu:15: there is no kernel `sca` in this file",
            "Did you mean `scale`?",
        ),
        (
            {"v0.cu": VERSION.replace('"duration"', '"duratoin"')},
            "kernels/s/v0.cu:22: unknown counter `duratoin`",
            "Did you mean `duration`?",
        ),
        (
            {"v0.cu": VERSION.replace('"x", "y"', '"x", "z"')},
            "kernels/s/v0.cu:18: unknown name `z` in args",
            "N, N2, TILE, tmp, x, y",
        ),
        (
            {"v0.cu": VERSION.replace("cdiv(N, TILE)", "cdiv(N, TIEL)")},
            "kernels/s/v0.cu:16: unknown name `TIEL` in grid",
            "Did you mean `TILE`?",
        ),
        (
            {"v0.cu": VERSION.replace("cdiv(N, TILE)", "N / TILE")},
            "kernels/s/v0.cu:16: grid: `N / TILE`: `/` does not give an integer",
            "cdiv(a, b)",
        ),
        (
            {"v0.cu": VERSION.replace('"N2", "TILE"', '"n2", "TILE"')},
            "kernels/s/v0.cu:13: unknown name `n2` in shape",
            "Did you mean `N2`?",
        ),
        (
            {"v0.cu": VERSION.replace("N > 1", "n > 1")},
            "kernels/s/v0.cu:5: unknown name `n`",
            "Did you mean `N`?",
        ),
        (
            {"v0.cu": VERSION.replace("TILE = 64", "TILE = 64\nN = 3")},
            "kernels/s/v0.cu:10: the define `N` hides a parameter",
            "Rename",
        ),
    ],
)
def test_a_wrong_version_is_named_with_its_line(
    maker: Maker, files: dict[str, str], message: str, hint: str
) -> None:
    for name, text in files.items():
        maker.write(name, text)
    maker.fails(message, hint)


def test_the_names_of_counters_are_those_of_the_catalog() -> None:
    assert _counter_ids() == {counter.id for counter in catalog()}


def test_a_kernel_may_come_from_an_include_or_a_macro(maker: Maker) -> None:
    body = 'extern "C" __global__ void scale(const float* x, float* y) { y[0] = x[0]; }\n'
    maker.write("inner.cuh", "// __global__ void other(int)\n" + body)
    maker.write("v0.cu", VERSION.replace(body, '#include "inner.cuh"\n'))
    maker.write("v1.cu", VERSION.replace(body, "DEFINE_KERNEL(scale, float)\n"))
    maker.write("v2.cu", VERSION.replace(body, "/* scale */ // scale\n"))
    maker.fails("kernels/s/v2.cu:15: there is no kernel `scale`")


# --- files as they come -------------------------------------------------------------


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_bom_and_line_ends_do_not_matter(maker: Maker, mark: bytes, end: bytes) -> None:
    maker.write("v0.cu", mark + VERSION.encode().replace(b"\n", end))
    maker.write("study.py", mark + STUDY.encode().replace(b"\n", end))
    version = maker.load().version("v0")
    assert version.text == VERSION


@pytest.mark.parametrize(
    ("name", "text", "line", "encoding"),
    [
        ("v0.cu", VERSION.replace('"c"', '"caf\u00e9"').encode("latin1"), 4, "LATIN1"),
        ("v0.cu", VERSION.replace('"c"', '"\u00e9t\u00e9"').encode("latin1"), 4, "LATIN1"),
        ("v0.cu", VERSION.encode("utf-16"), 1, "UTF-16"),
        ("study.py", STUDY.replace("Scale", "\u7f29\u653e").encode("gbk"), 2, "GB18030"),
        ("v0.cu", VERSION.replace('"c"', '"\u5171\u955e"').encode("gb18030"), 4, "GB18030"),
    ],
)
def test_another_encoding_is_named_with_file_and_line(
    maker: Maker, name: str, text: bytes, line: int, encoding: str
) -> None:
    """And the command that the hint gives makes a file of it that is read."""
    maker.write("v0.cu", VERSION)
    maker.write(name, text)
    maker.fails(f"kernels/s/{name}:{line}: not UTF-8", f"iconv -f {encoding} -t UTF-8 kernels/s/")
    maker.write(name, text.decode(encoding).encode())
    assert "v0" in maker.load().versions


@pytest.mark.parametrize("name", ["v1_pipe.cu", "lib.py", "common.cuh", "study.py"])
def test_a_pipe_where_a_source_should_be_is_named(maker: Maker, name: str) -> None:
    """Opened, it would hold us until somebody writes to it."""
    maker.write("v0.cu", VERSION.replace("--- */\n", '--- */\n#include "common.cuh"\n'))
    path = maker.folder / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    maker.fails(f"kernels/s/{name} is a pipe, not a file")


def test_a_folder_where_a_version_should_be_and_an_editors_link(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    (maker.folder / ".#v0.cu").symlink_to("somebody@somewhere.1234")
    assert list(maker.load().versions) == ["v0"]
    (maker.folder / "v1.cu").mkdir()
    maker.fails("kernels/s/v1.cu is a folder, not a file")


@pytest.mark.parametrize("text", ["// ---\n// kernel = 3\n// ---\n", b"\xff" * 1000])
def test_a_version_that_is_left_out_keeps_nothing_of_its_file(maker: Maker, text: str) -> None:
    """Its error would hold the frames that read it: gigabytes, where hundreds are left out."""
    maker.write("v1.cu", text)
    error = load_versions(maker.project, "s").broken["v1"]
    assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)


def test_a_ladder_of_thousands_is_walked_once() -> None:
    """Each version's way down, walked anew, would be some 10^10 steps."""
    ids = [f"v{number}" for number in range(4000)]
    versions = [
        Version(
            study="s", id=each, name=each, path="v.cu", kind="cuda", text="", title=each, parent=at
        )
        for each, at in zip(ids, [None, *ids], strict=False)
    ]
    broken: dict[str, UsageError] = {}
    assert list(_link(versions, broken)) == ids and not broken
    versions[0] = replace(versions[0], parent="v2", text=VERSION)
    assert list(_link(versions, broken)) == ids[3:]
    assert list(broken) == ["v0", "v2", "v1"]
    assert "a cycle of parents: v0 → v2 → v1 → v0" in broken["v0"].message
