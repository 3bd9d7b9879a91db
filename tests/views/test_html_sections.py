"""View models of the sweep, the what-if curves, PTX, and pairs of versions on request."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.factories import make_launch, make_metrics, make_profile, make_project, make_timing
from tests.views import site_data
from workbench.analysis.limits.headroom import Panel, Way
from workbench.analysis.limits.limit import Limit
from workbench.counters import catalog
from workbench.errors import UsageError
from workbench.gpus import chip_for
from workbench.model import Build, Estimate, Profile, SourceFile, Timing
from workbench.project import find_project
from workbench.store import Store
from workbench.study.folder import StudyInfo, run_study
from workbench.views.html.build import build_report
from workbench.views.html.charts.lines import Axis, Point, Series, lines, what_if
from workbench.views.html.code.source import ptx_view
from workbench.views.html.pages.ladder import sweep
from workbench.views.html.parts import cell, panel_view
from workbench.views.html.render import environment
from workbench.views.html.reports import kernels_of

PTX = """\
.visible .entry _Z5scalePKfPf(
  .param .u64 p
)
{
  .reg .b32 %r<2>;
  .loc 1 3 5
  ld.global.f32 %f1, [%rd1];
  .loc 1 0 5
  nop;
$L__BB0:
  .loc 1 5 1
  ret;
}
.file 1 "scale.cu"
"""


def timing(version: str, n: int, seconds: float) -> Timing:
    ratio = Estimate(value=0.5, low=0.49, high=0.51)
    base = make_timing(seconds, version=version, problem=f"n{n}", flops=2 * n**3)
    return msgspec.structs.replace(base, parameters={"M": n, "N": n, "K": n}, ratio=ratio)


def test_of_many_versions_those_that_are_fastest_nowhere_are_grey() -> None:
    seconds = {"v0": (9.0, 9.0), "v1": (8.0, 8.0), "v2": (1.0, 7.0), "v3": (6.0, 2.0),
               "v4": (5.0, 5.0), "v5": (4.0, 4.0), "lib": (0.5, 0.5)}  # fmt: skip
    timings = [
        timing(version, n, factor * 1e-3)
        for version, both in seconds.items()
        for n, factor in zip((256, 1024), both, strict=True)
    ]
    found = sweep(timings, list(seconds), {"lib"})
    assert found is not None
    data = found.charts[0].figure.spec["data"]
    grey = {trace["name"] for trace in data if trace["line"]["color"] == "@line"}
    assert grey == {"v0", "v1", "v4", "v5"}
    assert [trace["name"] for trace in data][-3:] == ["v2", "v3", "lib"]  # above the others
    assert all(trace["meta"].startswith("@c") for trace in data if trace["name"] in grey)


def test_one_problem_is_no_sweep() -> None:
    assert sweep([timing("v0", 256, 1e-3)], ["v0"], set()) is None


def test_unlike_problems_are_told_apart_by_their_work_or_name() -> None:
    a = msgspec.structs.replace(timing("v0", 256, 1e-3), parameters={"M": 1, "N": 7})
    b = msgspec.structs.replace(timing("v0", 512, 1e-3), parameters={"M": 2, "N": 3})
    found = sweep([a, b], ["v0"], set())
    assert found is not None
    assert "work" in found.charts[0].figure.spec["layout"]["xaxis"]["title"]["text"]
    idle = [msgspec.structs.replace(item, flops=0, ratio=None) for item in (a, b)]
    found = sweep(idle, ["v0"], set())
    assert found is not None
    assert [way for way, _ in found.ways] == ["time"]
    assert list(found.charts[0].figure.spec["layout"]["xaxis"]["ticktext"]) == ["n256", "n512"]


def test_a_wide_sweep_is_thinned_evenly() -> None:
    found = sweep([timing("v0", n, 1e-3) for n in range(100, 140)], ["v0"], set())
    assert found is not None
    problems = found.charts[0].problems
    assert (len(problems), problems[0], problems[-1]) == (32, "n100", "n139")
    assert found.note == "Of 40 problems, 32 are drawn."


def test_what_if_needs_a_known_chip_and_resources() -> None:
    chip = chip_for(make_profile().device)
    assert what_if(make_launch(), None, "x") is None
    assert what_if(make_launch(metrics={}), chip, "x") is None


def test_ptx_lines_know_their_source_line() -> None:
    build = Build(compiler="nvcc 13.0", arch="sm_90", ptx=PTX)
    profile = make_profile(build=build, sources=(SourceFile(path="scale.cu", text="x"),))
    found = ptx_view(profile, make_launch(kernel="scale"))
    tied = {row.text: row.at for row in found.rows if row.at}
    assert tied == {"ld.global.f32 %f1, [%rd1];": "0:3", "ret;": "0:5"}
    assert not any(row.text.startswith(".loc") for row in found.rows)
    text, at = found.columns["text"], found.columns["at"]
    assert isinstance(text, str) and isinstance(at, list)
    assert found.count == len(text.split("\n")) == len(at)


def test_without_a_build_the_reports_own_ptx_is_shown() -> None:
    launch = make_launch()
    table = msgspec.structs.replace(
        launch.instructions, ptx=("ld.global;", "ld.global;", "bar.sync;", "", "ret;")
    )
    launch = msgspec.structs.replace(launch, instructions=table)
    found = ptx_view(make_profile(build=None), launch)
    assert [(row.text, row.at) for row in found.rows] == [
        ("ld.global;", "0:3"),
        ("bar.sync;", "0:4"),
        ("ret;", "0:5"),
    ]


def test_any_pair_gets_a_page_on_request_and_keeps_it(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    Store(root / "profiles").save(make_profile(version="v4"))
    project = find_project(root)
    page = root / "reports/studies/demo/h200/n1024/v0..v4.html"
    build_report(root / "reports", project=project)
    assert not page.exists()
    build_report(root / "reports", project=project, studies=("v0..v4",))
    assert page.exists()
    ladder = (page.parent / "index.html").read_text(encoding="utf-8")
    assert "Also compared" in ladder and "v0..v4.html" in ladder
    again = build_report(root / "reports", project=project)
    assert (again.pages.written, again.pages.removed) == (0, 0)
    assert page.exists()


def test_a_pair_that_is_not_recorded_names_the_nearest(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    project = find_project(root)
    with pytest.raises(UsageError, match="no profile of demo/v3 is recorded") as error:
        build_report(root / "reports", project=project, studies=("demo/v0..v3",))
    assert "v2" in error.value.hint or "v0" in error.value.hint


def test_durations_of_the_profiler_are_called_so(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    names = ("index.html", "studies/demo/h200/n1024/index.html")
    pages = [root / "reports" / name for name in names]
    said = "no time is recorded", "no time recorded", "which have no interval"
    build_report(root / "reports", project=find_project(root))
    assert not any(words in page.read_text(encoding="utf-8") for words in said for page in pages)
    for timing_file in (root / "profiles").rglob("*.time.json.zst"):
        timing_file.unlink()
    build_report(root / "reports", project=find_project(root))
    index, ladder = (page.read_text(encoding="utf-8") for page in pages)
    assert "durations under the profiler, no time recorded" in index
    assert "durations under the profiler; no time is recorded" in ladder
    assert "which have no interval" in ladder and "95% intervals" not in ladder


def test_names_are_broken_at_their_joints_and_escaped() -> None:
    name = environment().from_string('{% import "macros.html" as m %}{{ m.name(id) }}')
    assert name.render(id="cudnn_tf32<b>") == "cudnn_<wbr>tf32&lt;<wbr>b&gt;"


def test_a_sweep_of_two_sizes_is_shown_by_families() -> None:
    def one(version: str, n: int, stride: int) -> Timing:
        return make_timing(
            1e-4 * n / stride,
            version=version,
            problem=f"n{n}_s{stride}",
            parameters={"H": n, "W": n, "U": stride, "V": stride},
            flops=n * n // stride,
        )

    timings = [one(v, n, s) for v in ("v0", "v1") for n in (32, 64, 128) for s in (1, 2, 3)]
    found = sweep([t for t in timings if (t.version, t.problem) != ("v1", "n64_s2")], ["v0"], set())
    assert found is not None
    assert [title for _, title in found.families] == ["U = V = 1", "U = V = 2", "U = V = 3"]
    assert found.ways == [("rate", "FLOP/s"), ("time", "Time")]
    figures = {chart.parts: chart.figure for chart in found.charts}
    second = figures["rate family1"].spec["data"]
    assert [len(line["x"]) for line in second] == [3, 2]  # v1 refuses one of them
    assert figures["rate family1"].spec["layout"]["xaxis"]["title"]["text"] == "H = W"
    rows = {chart.parts: dict(chart.rows) for chart in found.charts}
    assert [cell is None for cell in rows["time family1"]["v1"]] == [False, True, False]


def test_an_outputs_size_that_follows_from_the_others_is_no_axis() -> None:
    timings = [
        make_timing(
            1e-4 * n / stride,
            version="v0",
            problem=f"n{n}_s{stride}",
            parameters={"C": 3, "H": n, "U": stride, "P": (n - 3) // stride + 1},
            flops=n * n // stride,
        )
        for n in (32, 64, 128)
        for stride in (1, 2, 3)
    ]
    found = sweep(timings, ["v0"], set())
    assert found is not None
    assert [title for _, title in found.families] == ["U = 1", "U = 2", "U = 3"]
    assert {c.figure.spec["layout"]["xaxis"]["title"]["text"] for c in found.charts} == {"H"}


def test_the_ends_of_lines_are_named_where_there_is_room() -> None:
    def line(name: str, last: float, *, library: bool = False) -> Series:
        points = tuple(Point(x=float(n), y=last * n, hover=name) for n in (1, 2))
        return Series(name=name, points=points, reference=library)

    series = [line("v0", 10.0), line("v1", 50.0), line("v2", 50.1), line("lib", 50.2, library=True)]
    short = Series(name="v3", points=(Point(x=1.0, y=30.0, hover=""),))
    figure = lines("x", "label", [*series, short], Axis("size"), Axis("rate", from_zero=True))
    named = [trace.get("text", [""])[-1].strip() for trace in figure.spec["data"]]
    assert named == ["v0", "", "v2", "", ""]
    assert all("text" not in trace["mode"] for trace in figure.spec["traces"])


def test_problems_that_differ_in_everything_stand_in_the_order_of_their_work() -> None:
    shapes = {"b": (1, 9, 4), "a": (2, 3, 5), "c": (3, 1, 6)}
    timings = [
        make_timing(
            1e-3,
            version="v0",
            problem=name,
            parameters=dict(zip("CHK", shape, strict=True)),
            flops=100 * math.prod(shape),
        )
        for name, shape in shapes.items()
    ]
    found = sweep(timings, ["v0"], set(), "op")
    assert found is not None and not found.families
    axis = found.charts[0].figure.spec["layout"]["xaxis"]
    assert axis["ticktext"] == ["c", "a", "b"]
    assert "type" not in axis  # an order, no amount
    assert found.ways[0] == ("rate", "OP/s")
    (cell, *_) = found.charts[0].rows[0][1]
    assert cell is not None and "OP/s" in cell.text


def test_integer_work_is_no_floating_point_work(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    study = project.kernels / "demo/study.py"
    text = study.read_text(encoding="utf-8")
    assert StudyInfo(project, "demo").work == "flop"
    study.write_text(text.replace('"float32")}', '"int32")}'), encoding="utf-8")
    run_study(project, "demo")
    info = StudyInfo(project, "demo")
    assert (info.problem, info.work) == ("", "op")


STALLS_IN_ANY_ORDER = """
from tests.factories import make_launch, make_profile
from workbench.counters import catalog
from workbench.model import InstructionTable, Metric
from workbench.views.html.charts.several import stack_stalls

states = [counter for counter in catalog().group("stalls") if counter.names]
metrics = {"gpu__time_duration.sum": Metric(value=1e-4, unit="s")}
for place, state in enumerate(states):
    metrics[state.names[0]] = Metric(value=0.1 / (place + 1), unit=state.unit)
launch = make_launch(metrics=metrics, instructions=InstructionTable())
split = stack_stalls([("v1", make_profile(launches=(launch,)))])
print(split.sides[0].parts[-1][0], split.sides[0].parts[-1][1].hex())
"""


def test_the_small_states_add_up_to_the_same_number_in_every_run() -> None:
    """In a set's order, which the hash seed decides, the sum's last digit would differ."""
    said = {
        subprocess.run(
            [sys.executable, "-c", STALLS_IN_ANY_ORDER],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(said) == 1 and said.pop().startswith("All others")


def test_what_is_undefined_is_said_and_what_nobody_measured_is_a_dash() -> None:
    """A kernel without a load has no bytes per sector of loads; that is no missing counter."""
    none = {
        "smsp__sass_inst_executed_op_global_ld.sum": 0.0,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": 0.0,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 0.0,
    }
    launch = make_launch(metrics=make_metrics(**none))
    undefined = cell(launch, catalog()["global_load_efficiency"])
    assert undefined.value == "undefined" and undefined.missing.startswith("undefined: ")
    unknown = cell(launch, catalog()["dram_bytes"])
    assert unknown.value == "—" and not unknown.missing.startswith("undefined")
    template = environment().from_string('{% import "macros.html" as m %}{{ m.value(cell) }}')
    assert ">undefined<" in template.render(cell=undefined)


def test_a_ladder_that_was_only_counted_speaks_of_no_durations(tmp_path: Path) -> None:
    """As of the emulator's profiles: there is no time, under a profiler or without."""
    site_data.study(tmp_path)
    metrics = {
        name: metric
        for name, metric in make_metrics().items()
        if "time_duration" not in name
    }  # fmt: skip
    for version in ("v0", "v2"):
        launches = (make_launch(metrics=metrics),)
        Store(tmp_path / "profiles").save(make_profile(version=version, launches=launches))
    build_report(tmp_path / "reports", project=find_project(tmp_path))
    pages = [tmp_path / "reports/index.html", *(tmp_path / "reports").rglob("n1024/index.html")]
    assert len(pages) == 2
    index, ladder = (page.read_text(encoding="utf-8") for page in pages)
    assert "under the profiler" not in index + ladder
    assert "only counters are compared" in ladder and "nothing is timed" in index
    assert "unknown without a time" in index and "not profiled" not in index


def test_what_the_emulator_counted_is_called_ptx(tmp_path: Path) -> None:
    """Its instructions are PTX, beside the whole text; a page of ncu's has SASS and PTX."""
    site_data.study(tmp_path)
    Store(tmp_path / "profiles").save(make_profile(version="v0", engine="emulator"))
    Store(tmp_path / "profiles").save(make_profile(version="v2"))
    build_report(tmp_path / "reports", project=find_project(tmp_path))
    (emulated,) = (tmp_path / "reports").rglob("v0.emulator.html")
    (measured,) = (tmp_path / "reports").rglob("v2.html")
    assert "5 PTX instructions" in (page := emulated.read_text(encoding="utf-8"))
    assert "SASS" not in page and "Counted PTX" in page
    assert "5 SASS instructions" in (page := measured.read_text(encoding="utf-8"))
    assert "Counted PTX" not in page


def test_the_heading_of_two_reports_names_the_kernels_that_take_most_time() -> None:
    def report(**seconds: float) -> Profile:
        return make_profile(
            launches=tuple(
                make_launch(kernel=name, metrics=make_metrics(**{"gpu__time_duration.sum": each}))
                for name, each in seconds.items()
            )
        )

    old = report(halo_x=1e-5, halo_z=1e-5, step=5e-3, tendencies=6e-3)
    new = report(halo_x=1e-5, halo_z=1e-5, step=5e-3, tendencies=3e-3)
    assert kernels_of(old, new) == "step, tendencies and 2 more"
    assert kernels_of(report(slow=2e-3, fill=1e-6), report(fast=1e-3)) == "slow and fill → fast"


@pytest.mark.parametrize("href", ["", "#L7"])
def test_a_line_to_try_that_stands_on_no_page_is_no_link(href: str) -> None:
    way = Way(
        kind="conflicts",
        words="Pad",
        saves=0.5,
        because="so",
        effort=2,
        counter="cycles",
        line=(0, 7),
    )
    limit = Limit(id="l2", words="the L2, 90%", share=0.9)
    view = panel_view(Panel(limit=limit, hot=None, ways=(way,)), make_profile(), lambda _: href)
    panel = vars(environment().get_template("panel.html").module)["panel"]
    page = panel(view, "", "")
    assert ('<a href="#L7">line 7</a>' in page) == bool(href)
    assert "line 7" in page and 'href=""' not in page
