"""The outcomes of programs that `workbench run` ran, and the lists that they come from."""

from __future__ import annotations

from benchmarks.standin.outcomes import own_programs


def test_each_mistake_names_a_line_and_there_are_as_many_as_promised() -> None:
    programs = list(own_programs())
    groups = [each.group for each in programs]
    assert (groups.count("mistakes"), groups.count("legal")) == (12, 24)
    for each in programs:
        assert (each.fault is not None) == (each.group == "mistakes"), each.name
        if each.fault:
            line = each.program.read_text("utf-8").splitlines()[each.fault[1] - 1]
            assert line.startswith("  "), f"{each.name}: {line}"
