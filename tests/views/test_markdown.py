"""A step as a merge request's comment: what it says, and that nothing in it breaks out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.factories import SOURCE, make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.story import explain
from workbench.model import Profile, SourceFile
from workbench.specs import Expectation
from workbench.views.text.escaping import code, fenced, inline, paragraph
from workbench.views.text.markdown import LIMIT, step_markdown
from workbench.views.text.tables import to_markdown

MARKDOWN = MarkdownIt("commonmark").enable("table")
#: The only elements that the comment itself holds.
OURS = re.compile(r"</?(details|summary|sub)>")
HOSTILE = "a|b `c` ``d`` </td><img src=x onerror=1> [x](javascript:alert(1)) **e** @team #12 \\ _f_"


def step(
    old: Profile,
    new: Profile,
    *expectations: Expectation,
    force: bool = False,
    labels: tuple[str, str] = ("v2", "v3"),
    **words: Any,
) -> str:
    comparison = compare(old, new, old_time=None, new_time=None, labels=labels, force=force)
    return step_markdown(old, new, comparison, explain(old, new, comparison, expectations), **words)


def with_source(profile: Profile, text: str, **changes: Any) -> Profile:
    source = SourceFile(path=profile.sources[0].path, text=text)
    return msgspec.structs.replace(profile, sources=(source,), **changes)


def padded() -> tuple[Profile, Profile]:
    """The tile gets a column, and the store to it no longer conflicts."""
    old = make_profile()
    launch = make_launch(
        metrics=make_metrics(
            memory_l1_wavefronts_shared=2048,
            **{
                "gpu__time_duration.sum": 208e-6,
                "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 0.0,
                "launch__registers_per_thread": 30,
            },
        ),
        instructions=make_instructions(memory_l1_wavefronts_shared={1: 1024, 3: 1024}),
    )
    return old, with_source(
        make_profile(launches=(launch,)), SOURCE.replace("[32][32]", "[32][33]")
    )


def tokens(text: str) -> list[Token]:
    flat: list[Token] = []

    def collect(some: Sequence[Token]) -> None:
        for token in some:
            flat.append(token)
            collect(token.children or ())

    collect(MARKDOWN.parse(text))
    return flat


def shown(text: str) -> str:
    """What a reader sees of an inline text."""
    return "".join(t.content for t in tokens(text) if t.type in ("text", "code_inline"))


# --- what it says -----------------------------------------------------------------------


def test_warnings_are_quoted_before_the_numbers() -> None:
    old, new = padded()
    elsewhere = msgspec.structs.replace(
        new, device=msgspec.structs.replace(new.device, name="NVIDIA A100", slug="a100")
    )
    text = step(old, elsewhere, force=True, notes=["v3: stale: edited"])
    assert "> not comparable, compared with --force: " in text and "> v3: stale: edited" in text
    assert text.index("stale") < text.index("| counter |")


def is_only_text(text: str) -> bool:
    kinds = {token.type for token in tokens(text)}
    return kinds <= {
        "paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline",
    }  # fmt: skip


@given(st.text())
def test_a_paragraph_is_one_paragraph_of_text(text: str) -> None:
    made = paragraph(text)
    assert is_only_text(made)
    assert made.count("\n") == 0


@pytest.mark.parametrize(
    "text",
    [HOSTILE, "# a", "- a", "+ a", "1. a", "1) a", "> a", "=== a", "---", "```", "<!-- a", "&amp;"],
)
def test_what_looks_like_markdown_is_shown_as_it_is(text: str) -> None:
    made = paragraph(text)
    assert is_only_text(made)
    seen = "".join(t.content for t in tokens(made) if t.type in ("text", "text_special"))
    assert seen.replace("\u200b", "") == text


@given(st.text(min_size=1))
def test_code_is_one_code_span(text: str) -> None:
    made = code(text)
    if made:
        (span,) = [t for t in tokens(made) if t.type == "code_inline"]
        assert is_only_text(made) and "\n" not in span.content


@given(st.text(st.sampled_from("` a\n"), min_size=1))
def test_backticks_in_code_are_shown(text: str) -> None:
    flat = " ".join(text.split())
    if flat:
        assert shown(code(text)).strip() == flat


lines = st.lists(st.text(st.sampled_from("`~ -+<|a\t\r"), max_size=12), max_size=6)


@given(lines)
def test_no_line_ends_its_block(source: list[str]) -> None:
    made = fenced([f"+{line}" for line in source], "diff")
    (fence,) = MARKDOWN.parse(made)
    assert (fence.type, fence.info) == ("fence", "diff")
    wanted = "".join(f"+{line}\n" for line in source).replace("\r", "")
    assert fence.content == wanted


@given(st.text(st.sampled_from("|`\\ab*"), max_size=12))
def test_a_cell_stays_one_cell(text: str) -> None:
    table = f"| a | b |\n| --- | --- |\n| {inline(text)} | x |"
    cells = [t for t in tokens(table) if t.type == "td_open"]
    assert len(cells) == 2


def test_nobody_is_called() -> None:
    made = inline("ask @team about #12, !7 and user@example.com")
    assert not re.search(r"@\w|(?<!&)#\w|!\w", made)
    assert inline("a # b, 5% of it") == "a # b, 5% of it"


def test_characters_that_reorder_code_are_named() -> None:
    assert "⟨U+202E⟩" in fenced(["+a\u202eb"], "diff") and "⟨U+2066⟩" in inline("a\u2066b")
    assert inline("a\x1b[31m\x00b") == r"a·\[31m·b"
    assert code("\ud800").encode("utf-8")


def test_every_name_of_a_step_can_be_hostile() -> None:
    text = "```\n</details>\n" + SOURCE
    launch = make_launch(kernel=f"k{HOSTILE}", signature=HOSTILE)
    old = with_source(make_profile(launches=(launch,), study=HOSTILE, problem=HOSTILE), text)
    new = with_source(old, text.replace("[32][32]", "[32][33]").replace("2.0f", "3.0f  // ~~~```"))
    source = SourceFile(path=f"a/{HOSTILE}.cu", text=old.sources[0].text)
    old = msgspec.structs.replace(old, sources=(source,))
    after = SourceFile(path=source.path, text=new.sources[0].text)
    new = msgspec.structs.replace(new, sources=(after,))
    made = step(
        old,
        new,
        Expectation(counter=HOSTILE, change="up", why=HOSTILE),
        force=True,
        labels=(HOSTILE, HOSTILE),
        title=HOSTILE,
        change=HOSTILE,
        notes=[HOSTILE, f"# {HOSTILE}"],
    )
    for token in tokens(made):
        assert token.type not in ("link_open", "image", "heading_open", "hr"), token
        if token.type.startswith("html"):
            assert not OURS.sub("", token.content).strip() or "summary" in token.content
            assert "img" not in token.content and "td" not in token.content
        assert token.type != "text" or not re.search(r"@\w", token.content), token
    fences = [token for token in MARKDOWN.parse(made) if token.type == "fence"]
    assert len(fences) == made.count("**Hunk ") >= 1
    assert all(line[0] in "@-+" for fence in fences for line in fence.content.splitlines())


@pytest.mark.slow
def test_a_huge_step_fits_into_a_comment() -> None:
    long = "\n".join(f"int a{i} = {i};" + "x" * 500 for i in range(3000))
    other = "\n".join(f"int a{i} = {i if i % 40 else -i};" + "x" * 500 for i in range(3000))
    old = with_source(make_profile(), long)
    made = step(old, with_source(old, other))
    assert len(made) <= LIMIT + 200
    assert made.rstrip().endswith("</sub>")


@given(st.lists(st.text(max_size=12), min_size=2, max_size=2))
def test_tables_of_list_and_show_hold_text(cells: list[str]) -> None:
    table = to_markdown(("a", "b"), [cells, (HOSTILE, "x")])
    kinds = [token.type for token in tokens(table)]
    assert kinds.count("td_open") == 4 and kinds.count("tr_open") == 3
    assert not {"link_open", "html_inline", "html_block", "strong_open"} & set(kinds)
