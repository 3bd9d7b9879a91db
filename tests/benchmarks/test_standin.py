"""The outcomes of programs that `workbench run` ran, and the lists that they come from."""

from __future__ import annotations

from pathlib import Path

from benchmarks.standin.outcomes import Listed, Outcome, listed, own_programs, run, summary


def program(path: Path, text: str, check: str) -> Listed:
    """A program that prints `text`."""
    script = path / "program"
    script.write_text(f"#!/bin/sh\nprintf '%s' '{text}'\n")
    script.chmod(0o755)
    return Listed("some/program", "public", script, path, check=check)


def test_each_mistake_names_a_line_and_there_are_as_many_as_promised() -> None:
    programs = list(own_programs())
    groups = [each.group for each in programs]
    assert (groups.count("mistakes"), groups.count("legal")) == (12, 24)
    for each in programs:
        assert (each.fault is not None) == (each.group == "mistakes"), each.name
        if each.fault:
            line = each.program.read_text("utf-8").splitlines()[each.fault[1] - 1]
            assert line.startswith("  "), f"{each.name}: {line}"


def test_the_programs_own_word_decides(tmp_path: Path) -> None:
    for text, check, verdict in (
        ("all PASS", "PASS", "passed"),
        ("PASS FAIL", "PASS", "failed"),
        ("nothing", "exit", "passed"),
        ("nothing", "PASS", "failed"),
        ("nothing", "none", "none"),
    ):
        outcome = run(program(tmp_path, text, check), 10, bare=True)
        assert (outcome.ended, outcome.verdict) == (True, verdict), text
        assert Outcome.read(outcome.line) == outcome


def test_a_list_is_read_and_its_outcomes_are_added_up(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(
        '[[program]]\nname = "a/one"\ngroup = "public"\nprogram = "/bin/true"\nfolder = "/"\n'
        'check = "exit"\n[[program]]\nname = "a/two"\ngroup = "public"\nprogram = "/bin/false"\n'
        'folder = "/"\nbuilt = false\n'
    )
    outcomes = [run(each, 10, bare=True) for each in listed(path)]
    text = summary(outcomes)
    assert "| a | 2 | 1 | 1 | 1 | 0 | 0 | 0 |" in text
    assert "- a/two: not built" in text
