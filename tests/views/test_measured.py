"""What verify, time and doctor print: goldens at 80 and 120 columns, and the other formats."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from tests import goldens
from tests.factories import make_timing
from workbench.language import using
from workbench.measure.sanitizer import Finding, Place
from workbench.model import DeviceState, Estimate, Notice, Timing
from workbench.views.shapes.listed import EquipmentFacts as Row
from workbench.views.shapes.measured import VerifiedProblem
from workbench.views.sheets import Sheet
from workbench.views.sheets.machine import doctor_sheet
from workbench.views.sheets.time import time_sheet
from workbench.views.sheets.verify import verify_sheet
from workbench.views.terminal.console import render as to_text
from workbench.views.terminal.tables import sheet_view
from workbench.views.text.tables import sheet_text


def estimate(value: float, width: float, n: int = 40) -> Estimate:
    return Estimate(value=value, low=value * (1 - width), high=value * (1 + width / 2), n=n)


def timings() -> list[Timing]:
    state = DeviceState(sm_clock=(1.98e9, 1.98e9), power=(140.0, 152.0), temperature=(35.0, 37.0))
    shared: dict[str, Any] = {
        "study": "sgemm",
        "flops": 2 * 1024**3,
        "bytes": 3 * 4 * 1024**2,
        "first_launch": 707e-6,
        "state": state,
    }
    against: dict[str, Any] = {"baseline": "cublas", "baseline_time": estimate(63.5e-6, 0.001)}
    return [
        make_timing(
            version="v3",
            time=estimate(317e-6, 0.0009),
            ratio=estimate(0.2, 0.005),
            **against,
            **shared,
        ),
        make_timing(
            version="v4",
            time=estimate(121.4e-6, 0.012, 2560),
            ratio=estimate(0.523, 0.021),
            converged=False,
            launches={"im2col": 21e-6, "sgemm": 100e-6},
            notices=(
                Notice(
                    code="not-converged",
                    message="The 95% interval of the median stayed wider than 1.00% of it "
                    "after 2,560 samples.",
                ),
            ),
            **against,
            **shared,
        ),
        make_timing(version="cublas", time=estimate(63.5e-6, 0.0004), **shared),
    ]


def row(version: str, problem: str, error: float | None, **more: Any) -> VerifiedProblem:
    ok = error is not None and error <= 1e-5
    return VerifiedProblem(
        version=version, problem=problem, ok=ok, error=error, tolerance=1e-5, **more
    )


def rows() -> list[VerifiedProblem]:
    wrong = "v3 gives a wrong result on m127_n129_k131: ‖out − ref‖ / ‖ref‖ = 0.25"
    return [
        row("v0", "one", 3.83e-8, compared=1),
        row("v0", "m129_n132_k140", 2.11e-7, compared=17_028),
        row("v0", "n8192", 1.9e-6, compared=4096, sampled=4096),
        row("v3", "m127_n129_k131", 0.25, compared=16_383, message=wrong),
        row("cublas", "dot", None, message="cublas crashed on dot"),
    ]


FINDING = Finding(
    tool="racecheck",
    message="Race reported",
    places=(Place(kernel="sgemm", file="v3.cu", line=2, access="Write"),),
    count=256,
    thread=(0, 1, 0),
    block=(0, 0, 0),
)


def sheets() -> dict[str, Sheet]:
    methods = [*timings()[:2], make_timing(study="sgemm", method="graph", cache="warm")]
    return {
        "time": time_sheet(timings()),
        "time_methods": time_sheet(methods),
        "verify": verify_sheet(
            "sgemm",
            2206757559,
            rows(),
            [("v3", FINDING)],
            ("racecheck",),
            {"kernels/sgemm/v3.cu": "first;\n  As[ty][tx] = A[i];\n"},
        ),
        "doctor": doctor_sheet(
            [
                Row("GPU", "ok", "NVIDIA H200, compute capability 9.0", remedy="", without=""),
                Row(
                    what="ncu",
                    state="missing",
                    detail="ncu (Nsight Compute's command line) is not installed here",
                    remedy="It comes with the CUDA toolkit.",
                    without="verify and time.",
                ),
            ]
        ),
    }


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["time", "time_methods", "verify", "doctor"])
def test_golden(name: str, width: int) -> None:
    goldens.same_view(f"measured_{name}", sheet_view(sheets()[name]), width)


@pytest.mark.parametrize("name", ["time", "verify", "doctor"])
def test_golden_in_chinese(name: str) -> None:
    with using("zh"):
        sheet = sheets()[name]
        text = goldens.same_view(f"zh/{name}", sheet_view(sheet), 80)
        markdown = sheet_text(sheet, "markdown")
    # What programs read holds none of it.
    assert "版本" in text or "项目" in text
    assert markdown.count("\n") >= len(sheet.shown) + 2
    assert sheet_text(sheet, "csv").isascii() or "版本" not in sheet_text(sheet, "csv")


def test_columns_go_one_by_one_where_the_terminal_is_narrow() -> None:
    methods = [*timings()[:2], make_timing(study="sgemm", method="graph", cache="warm")]
    heads = {
        width: next(
            line
            for line in to_text(sheet_view(time_sheet(methods)), width).splitlines()
            if line.startswith("version")
        )
        .split("FLOP/s")[1]
        .split()
        for width in (70, 80, 94, 110)
    }
    assert heads == {
        70: [],
        80: ["first", "launch"],
        94: ["how", "first", "launch"],
        110: ["how", "samples", "first", "launch"],
    }


def test_integer_work_is_counted_in_operations() -> None:
    sheet = time_sheet(timings(), "op")
    assert "OP/s" in sheet.header and "FLOP/s" not in sheet.header
    assert "6.77 TOP/s" in sheet.shown[0]


def test_times_of_several_days_say_so() -> None:
    days = [make_timing(captured=f"2026-11-{day}T10:05:00Z") for day in (21, 20)]
    (title,) = time_sheet(days).title
    assert "2026-11-20 10:05 UTC to 2026-11-21 10:05 UTC" in title


def test_dates_are_for_people_and_iso_for_programs() -> None:
    sheet = time_sheet(timings())
    assert "2026-11-20 10:05 UTC" in sheet.title[0]
    (first, *_) = json.loads(sheet_text(sheet, "json"))["times"]
    assert first["captured"] == "2026-11-20T10:05:00Z"


def test_json_of_time_has_all_numbers() -> None:
    document = json.loads(sheet_text(time_sheet(timings()), "json"))
    assert document["study"] == "sgemm"
    (v3, v4, cublas) = document["times"]
    assert v3["seconds"]["value"] == 317e-6 and v3["seconds"]["n"] == 40
    assert v3["seconds"]["low"] < 317e-6 < v3["seconds"]["high"]
    assert v3["ratio"]["value"] == 0.2 and v3["baseline"] == "cublas"
    assert v4["launches"] == {"im2col": 21e-6, "sgemm": 100e-6} and v4["converged"] is False
    assert v4["notices"][0]["code"] == "not-converged"
    assert cublas["ratio"] is None and cublas["baseline"] is None
    assert v3["state"]["sm_clock"] == [1.98e9, 1.98e9]


def test_json_of_verify_says_what_was_wrong() -> None:
    document = json.loads(sheet_text(sheets()["verify"], "json"))
    assert document["seed"] == 2206757559 and document["sanitized"] == ["racecheck"]
    results = {(r["version"], r["problem"]): r for r in document["results"]}
    assert results["v0", "one"]["ok"] is True and results["v0", "one"]["compared"] == 1
    assert results["v0", "n8192"]["sampled"] == 4096
    assert results["cublas", "dot"]["error"] is None
    (finding,) = document["findings"]
    assert finding["places"] == [{"kernel": "sgemm", "file": "v3.cu", "line": 2, "access": "Write"}]


@pytest.mark.parametrize("name", ["time", "verify", "doctor"])
def test_csv_has_one_raw_row_each(name: str) -> None:
    sheet = sheets()[name]
    parsed = list(csv.reader(io.StringIO(sheet_text(sheet, "csv"))))
    assert parsed[0] == list(sheet.columns or sheet.raw[0]) and len(parsed) == 1 + len(sheet.shown)
    assert all(len(row) == len(parsed[0]) for row in parsed)


def test_markdown_has_title_table_and_notes() -> None:
    text = sheet_text(sheets()["time"], "markdown")
    assert text.startswith("study sgemm on NVIDIA H200")
    assert "| v3 | n1024 | 317 µs | ±0.0900% | 0.200× ±0.500% | 6.77 TFLOP/s | 40 |" in text
    assert "note: v4 n1024: The 95% interval" in text


def test_a_single_check_leaves_its_message_to_the_error() -> None:
    sheet = verify_sheet("sgemm", 1, rows()[3:4], [], (), {})
    assert sheet.notes == ()
    assert sheet.shown[0][2] == "WRONG" and sheet.shown[0][4] == "25,000×"


def test_what_is_wrong_on_every_problem_is_said_once() -> None:
    race = "k.cu:12: shared-memory race: thread {} writes what another reads"
    unable = "k.cu:9: kernel k: the emulator does not support cluster"
    wrong = [
        row("v0", "n7", None, message=race.format("(1, 0, 0)")),
        row("v0", "n9", None, message=race.format("(2, 0, 0)")),
        row("v0", "n11", None, message=race.format("(2, 0, 0)").replace("12", "13")),
        row("v1", "n7", None, message=unable),
        row("v1", "n9", None, message=unable),
        row("v2", "n9", None, message=unable),
    ]
    assert verify_sheet("s", 1, wrong, [], (), {}).notes == (
        race.format("(1, 0, 0)"),
        "The same on n9.",
        race.format("(2, 0, 0)").replace("12", "13"),
        unable,
        "The same on n9.",
        unable,
    )


def test_text_from_outside_cannot_move_the_cursor() -> None:
    bad = row("v0", "one", None, message="bad \x1b[2J news")
    text = to_text(sheet_view(verify_sheet("s", 1, [bad, bad], [], (), {})), 80)
    assert "\x1b" not in text and "bad" in text
