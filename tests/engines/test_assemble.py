"""Repeats folded into spreads, sources under the project's names, notices on metrics."""

from __future__ import annotations

import msgspec
import pytest

from tests.factories import make_profile
from workbench.engines.ncu.report import fold_repeats, metric_notices, own_sources
from workbench.errors import DataError
from workbench.model import InstructionTable, Launch, Metric, Profile, SourceFile

DURATION = "gpu__time_duration.sum"


def launch(index: int, seconds: float, kernel: str = "k", **more: float) -> Launch:
    metrics = {DURATION: Metric(value=seconds, unit="s")}
    metrics |= {name: Metric(value=value) for name, value in more.items()}
    return Launch(kernel=kernel, index=index, metrics=metrics)


def profile(*launches: Launch) -> Profile:
    return msgspec.structs.replace(make_profile(), launches=launches)


def test_one_capture_is_left_as_it_is() -> None:
    given = profile(launch(0, 1.0), launch(1, 2.0))
    assert fold_repeats(given, 1) is given


def test_the_median_capture_is_kept_whole_with_the_spread_of_all() -> None:
    given = profile(launch(0, 3.0, hits=30), launch(1, 1.0, hits=10), launch(2, 2.0, hits=50))
    (kept,) = fold_repeats(given, 3, 1).launches
    assert kept.metrics[DURATION].value == 2.0 and kept.metrics["hits"].value == 50
    spread = kept.spreads["hits"]
    assert (spread.n, spread.low, spread.median, spread.high) == (3, 10, 30, 50)
    assert kept.spreads[DURATION].median == 2.0


def test_an_even_number_of_captures_has_a_median_between_two() -> None:
    given = profile(*(launch(i, float(i + 1), hits=i) for i in range(4)))
    (kept,) = fold_repeats(given, 4).launches
    assert kept.metrics[DURATION].value == 2.0
    assert kept.spreads["hits"].median == 1.5


def test_several_launches_are_folded_by_their_place() -> None:
    given = profile(
        launch(0, 1.0, "im2col"),
        launch(1, 5.0, "gemm"),
        launch(2, 1.2, "im2col"),
        launch(3, 4.0, "gemm"),
    )
    folded = fold_repeats(given, 2, 2)
    assert [(x.kernel, x.index) for x in folded.launches] == [("im2col", 0), ("gemm", 1)]
    assert [x.spreads[DURATION].n for x in folded.launches] == [2, 2]


def test_a_metric_with_one_number_or_text_has_no_spread() -> None:
    first = launch(0, 1.0, once=1)
    second = launch(1, 2.0)
    named = {"name": Metric(value="text")}
    launches = [msgspec.structs.replace(x, metrics={**x.metrics, **named}) for x in (first, second)]
    (kept,) = fold_repeats(profile(*launches), 2).launches
    assert set(kept.spreads) == {DURATION}


@pytest.mark.parametrize(
    ("launches", "repeats", "program", "word"),
    [
        ([launch(0, 1.0), launch(1, 1.0), launch(2, 1.0)], 2, 0, "3 launches in 2 executions"),
        ([launch(0, 1.0), launch(1, 1.0)], 2, 2, "2 launches in 2 executions"),
        ([launch(0, 1.0, "a"), launch(1, 1.0, "b")], 2, 1, "a different kernel each time: a, b"),
        ([], 2, 1, "0 launches"),
    ],
)
def test_executions_that_differ_are_refused(
    launches: list[Launch], repeats: int, program: int, word: str
) -> None:
    with pytest.raises(DataError, match=word):
        fold_repeats(profile(*launches), repeats, program)


def test_files_get_the_projects_names_and_tables_follow() -> None:
    ours = SourceFile(path="kernels/a/v0.cu", text="the text", sha256="1")
    table = InstructionTable(
        address=(0, 16, 32, 48), text=("",) * 4, file=(0, 1, 2, -1), line=(1, 2, 3, 0)
    )
    given = msgspec.structs.replace(
        profile(Launch(kernel="k", index=0, instructions=table)),
        sources=(
            SourceFile(path="/home/me/project/kernels/a/v0.cu", text="other"),
            SourceFile(path="kernels/a/../a/v0.cu"),
            SourceFile(path="/home/me/inc/secret.h", text="h"),
            SourceFile(path="/usr/include/cuda_fp16.hpp"),
        ),
    )
    named = own_sources(given, [ours])
    assert [s.path for s in named.sources] == [
        "kernels/a/v0.cu",
        "secret.h",
        "/usr/include/cuda_fp16.hpp",
    ]
    assert named.sources[0].text == "the text"
    assert named.launches[0].instructions.file == (0, 0, 1, -1)


def test_a_source_that_the_report_lacks_is_added() -> None:
    ours = SourceFile(path="kernels/a/v0.cu", text="x")
    given = msgspec.structs.replace(profile(launch(0, 1.0)), sources=())
    assert own_sources(given, [ours]).sources == (ours,)


def test_notices_tell_asked_from_expected_and_nan() -> None:
    base = launch(0, 1.0, "k", **{"dram__bytes.sum": 5.0})
    given = profile(msgspec.structs.replace(base, absent={"b.pct": "NaN", "c.sum": "no value"}))
    found = {
        n.code: n.message
        for n in metric_notices(
            given, ["dram__bytes", "nope.sum", "regex:x.*"], ["gone.sum", "b.pct"]
        )
    }
    assert set(found) == {"missing-metric", "missing-counter", "nan-metric"}
    assert "nope.sum" in found["missing-metric"] and "regex" not in found["missing-metric"]
    assert "gone.sum" in found["missing-counter"] and "b.pct" not in found["missing-counter"]
    assert "b.pct" in found["nan-metric"]
    many = [f"m{i}.sum" for i in range(9)]
    (notice,) = metric_notices(profile(base), [], many)
    assert "m5.sum and 3 more" in notice.message
