"""Two languages: what people read is translated whole, what programs read never."""

from __future__ import annotations

import ast
import json
import random
import re
import string
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from rich.cells import cell_len

from tests import catalogue
from tests.told import Known, is_said, nodes_of, pieces, rows_of, sentences
from workbench import cli, language
from workbench.language import _WORDS, N_, TOLD, _, _pattern, current, ngettext, told, use, using

#: Parts of the catalogue in which nothing may lack its translation.
WHOLE = tuple(catalogue.PARTS)


@pytest.fixture(autouse=True)
def english() -> object:
    use("en")
    yield
    use("en")


def none(found: object) -> None:
    lines = sorted(map(str, found))  # type: ignore[call-overload]
    assert not lines, "\n" + "\n".join(lines)


def test_english_reads_no_catalogue() -> None:
    language._catalogue.cache_clear()
    assert (_("Duration"), ngettext("a", "b", 1), ngettext("a", "b", 0)) == ("Duration", "a", "b")
    assert language._catalogue.cache_info().currsize == 0


def test_what_has_no_translation_stays_english_and_nothing_is_nothing() -> None:
    with using("zh"):
        assert (_("no such sentence"), N_("Duration"), _("")) == (
            "no such sentence",
            "Duration",
            "",
        )
        assert ngettext("one thing", "{n} things", 1) == "one thing"
        assert ngettext("one thing", "{n} things", 2) == "{n} things"


def test_a_language_for_a_while_is_this_threads_alone() -> None:
    heard: list[str] = []
    with using("zh"):
        listener = threading.Thread(target=lambda: heard.append(current()))
        listener.start()
        listener.join()
        with using("en"):
            assert current() == "en"
        assert (current(), heard) == ("zh", ["en"])
    assert current() == "en"


@pytest.mark.parametrize(
    ("environment", "lang"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"WORKBENCH_LANG": "en", "LC_ALL": "zh_CN.UTF-8"}, "en"),
        ({"WORKBENCH_LANG": "ZH", "LC_ALL": "C"}, "zh"),
    ],
)
def test_a_setting_of_ours_goes_before_the_systems(environment: dict[str, str], lang: str) -> None:
    assert language.asked(environment) == lang


def functions() -> Iterator[tuple[str, ast.FunctionDef, list[ast.AST]]]:
    """Each function of the package, what names it, and all nodes of it."""
    for file, nodes in catalogue.sources().items():
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                yield f"{file}:{node.lineno} {node.name}", node, [*ast.walk(node)]


def test_no_function_that_translates_uses_the_name_for_what_it_throws_away() -> None:
    none(
        place
        for place, function, inside in functions()
        if function.name != "_"
        and any(getattr(each.func, "id", "") == "_" for each in catalogue.calls(inside))
        and any(
            (isinstance(each, ast.Name) and each.id == "_" and isinstance(each.ctx, ast.Store))
            or (isinstance(each, ast.arg) and each.arg == "_")
            for each in inside
        )
    )


def test_what_is_cached_is_asked_for_by_its_language() -> None:
    none(
        place
        for place, function, inside in functions()
        if re.search(r"\b(lru_)?cache\b", " ".join(map(ast.unparse, function.decorator_list)))
        and "lang" not in {each.arg.strip("_") for each in function.args.args}
        and any(ast.unparse(call.func) in ("_", "ngettext") for call in catalogue.calls(inside))
    )


def test_the_parts_hold_what_is_marked_and_nothing_else() -> None:
    kept = [text for name in catalogue.PARTS for text in catalogue.texts(catalogue.part(name))]
    none(f"run `make catalogue`: {text}" for text in set(catalogue.found()) ^ set(kept))
    none(f"in two parts: {text}" for text in set(kept) if kept.count(text) > 1)


def test_the_compiled_catalogue_says_what_the_parts_say() -> None:
    said = {text: each for text, each in catalogue.together().items() if each}
    assert catalogue.compiled() == said, "run `make catalogue`"
    with using("zh"):
        for text, translation in said.items():
            heard = _(text) if isinstance(text, str) else ngettext(*text, 7)
            assert heard == translation


@pytest.mark.parametrize("name", WHOLE)
def test_nothing_lacks_its_translation(name: str) -> None:
    none(text for text, said in catalogue.texts(catalogue.part(name)).items() if not said)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("raise UsageError(f'no version {x.name} of {names[0]}', 'Name one.')",
         ["no version {name} of {names}", "Name one."]),
        ("raise error('gone')", []),
        ("why = ' which is not here' if name else ''", [" which is not here"]),
        ("say(f'{a} of {a!r}' + (', kept so' if a else '.'))", [", kept so"]),
        ("print(_('a text that is marked'))\n'a text without use'", []),
        ("re.match('is a pattern|is code')", []),
    ],
)  # fmt: skip
def test_a_sentence_is_found_where_it_is_written(code: str, found: list[str]) -> None:
    assert sorted(text for text, _ in sentences(nodes_of(code))) == sorted(found)


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("{other} has no version {it}", True),
        ("has no version", True),
        ("{name} was not run{why}", True),
        ("version of {name}", False),
        ("{x} is stale", True),
        ("is stale", True),
        ("stale", False),
    ],
)
def test_a_template_covers_what_it_contains(text: str, covered: bool) -> None:
    known = Known(["study {name} has no version {v}", "{x} was not run, {y}", "{name} is stale!"])
    assert known.covers(text) == covered


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{name} does not build: {why}", True),
        ("{name} does not build, as a table's word says", True),
        ("{name} does not build. Correct it.", True),
        ("{name} never builds", False),
        ("what {name} was never does not build", False),
        ("{name} does not build any more", False),
    ],
)
def test_a_template_that_no_source_says_any_more_is_stale(text: str, said: bool) -> None:
    code = """f"{name} does not build: {why}. Correct it."; "as a table's word says"; "was" """
    whole = set(pieces(nodes_of(code), str))
    assert is_said(text, whole, {row for words in whole for row in rows_of(words)}) == said


def fields(text: str) -> set[str]:
    """Names that are filled in: ``{name}`` of Python's, ``%(name)s`` of a template's."""
    try:
        named = {
            name for _text, name, _spec, _kind in string.Formatter().parse(text) if name is not None
        }
    except ValueError:  # a brace that is meant as one
        named = set()
    return named | set(re.findall(r"%\((\w+)\)", text))


def test_a_translation_has_the_fields_of_its_text() -> None:
    none(
        f"{text!r}: {said!r}"
        for text, said in catalogue.together().items()
        if said and fields(text if isinstance(text, str) else text[1]) != fields(said)
    )


def test_the_option_goes_before_the_environment_and_programs_are_spoken_to_in_english(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = []
    monkeypatch.setenv("WORKBENCH_LANG", "zh")
    for words in (["docs"], ["--lang", "en", "docs"], ["--lang", "zh", "list", "--format", "json"]):
        assert cli.main(words) == 0
        heard.append(current())
    with pytest.raises(SystemExit):
        cli.main(["--lang", "zh", "--json-errors", "show", "v999"])
    heard.append(current())
    assert heard == ["zh", "en", "en", "en"]
    assert json.loads(capsys.readouterr().err)["error"]["code"] == 2


@pytest.mark.parametrize(
    ("words", "system"),
    [
        (["--lang", "zh", "--help"], "C"),
        (["--help", "--lang", "zh"], "C"),
        (["--lang=zh", "-h"], "C"),
        (["--debug", "--lang", "en", "--lang", "zh", "tune", "--help"], "C"),
        (["--help"], "zh_CN.UTF-8"),
        (["tune", "-h"], "zh_CN.UTF-8"),
    ],
)
def test_help_is_in_the_language_that_is_asked_for_wherever_it_stands(
    words: list[str],
    system: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("WORKBENCH_LANG")
    monkeypatch.setenv("LC_ALL", system)
    assert cli.main(words) == 0
    assert capsys.readouterr().out.startswith("用法：workbench")
    monkeypatch.setenv("WORKBENCH_LANG", "en")
    assert cli.main([each for each in words if not re.match("--lang|en|zh", each)]) == 0
    assert capsys.readouterr().out.startswith("Usage: workbench")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nope"], "用 'workbench --help' 查看帮助。\n\n错误：没有选项 '--nope'。"),
        (["tune", "--engin"], "用 'workbench tune --help' 查看帮助。\n\n错误：没有选项"),
        (["--lang", "de", "list"], "\n\n错误：'--lang' 的值无效："),
        (["export", "cells"], "用法：workbench export [OPTIONS] {counters|"),
        (["export"], "错误：缺少参数 '{counters|lines|launches|times}'。可选：\n"),
        (["list", "--study"], "错误：选项 '--study' 需要一个参数。"),
        (["list", "--format=xml"], "错误："),
        (["--debug"], "错误：缺少命令。"),
        (["init", "/no/such"], "的值无效：文件夹 '/no/such' 不存在。"),
        (["time", "--timeout", "x"], "'x' 不是有效的浮点数。"),
        (["tune", "--restart=1"], "错误：选项 '--restart' 不接受值。"),
    ],
)
def test_a_wrong_word_is_told_in_chinese(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORKBENCH_LANG", "zh")
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    told = capsys.readouterr().err
    assert (ended.value.code, said in told) == (2, True), told
    assert told.startswith(("用法：workbench", "错误："))
    assert not re.search("Usage|Try|Error|No such", told)


class _Kept(cli.ToldHelp):
    """Help of which each text is kept with its translation."""

    def __init__(self) -> None:
        super().__init__(width=78)
        self.pairs: list[tuple[str, str]] = []

    def said(self, text: str) -> str:
        self.pairs.append((text, super().said(text)))
        return self.pairs[-1][1]


@pytest.mark.parametrize("ctx", [*catalogue.commands()], ids=lambda ctx: ctx.info_name)
def test_help_in_chinese_is_whole_and_fits_the_terminal(ctx: click.Context) -> None:
    kept = _Kept()
    with using("zh"):
        ctx.command.format_help(ctx, kept)
    none(
        text
        for text, said in kept.pairs
        if not re.search("[\u4e00-\u9fff]", said) and not text.startswith("workbench ")
    )
    lines = kept.getvalue().splitlines()
    none(line for line in lines if cell_len(line) > 80)
    none(line for line in lines if re.match(r" *[。，、；：？！）」』》”’…)\]]", line))
    none(line for line in lines if re.search("default: |required|[（“「《]$", line))


def test_lines_end_where_chinese_lets_them() -> None:
    for text, *lines in (
        ("一二三四。五六", "一二三", "四。五六"),
        ("一二三（四）五六", "一二三", "（四）", "五六"),
        ("一二三四五。", "一二三", "四五。"),
        ("一二三四五  [x>=1]", "一二三", "四五", "[x>=1]"),
        ("一 --on，二  [默认：x]", "一", "--on，二", "[默认：x]"),
        ("a-very-long-word 一", "a-very-long-word", "一"),
        ("", ""),
    ):
        assert cli._lines(text, 8) == lines


def test_fields_stand_apart_where_they_are_latin_and_only_there() -> None:
    text = language._Chinese("瓶颈是{limit}，{of}处于 {state}")
    assert text.format(limit="LSU", of="warp", state="屏障") == "瓶颈是 LSU，warp 处于屏障"
    assert text.format(limit="显存", of="60%", state="MIO") == "瓶颈是显存，60% 处于 MIO"
    assert language._Chinese("{n:.1f}{what!r}").format(n=1, what="x") == "1.0'x'"


def test_json_is_the_same_in_every_language(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo)
    answers = []
    for lang in language.LANGUAGES:
        assert cli.main(["--lang", lang, "diff", "sgemm/v2", "sgemm/v3", "--format", "json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("study sgemm has no version `v99`", "课题 sgemm 没有版本 `v99`"),
        ("no profile of sgemm/v3 is recorded", "没有记录 sgemm/v3 的性能数据"),
        (
            "no NVIDIA GPU can be used here: no driver was found (no nvidia-smi on PATH)",
            "这里没有可用的 NVIDIA GPU：没有找到驱动（PATH 中没有 nvidia-smi）",
        ),
        (
            "ncu (Nsight Compute's command line) is not installed here",
            "这里没有安装 ncu（Nsight Compute 的命令行）",
        ),
        (
            "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM)",
            "驱动只允许管理员读取 GPU 的计数器（ERR_NVGPUCTRPERM）",
        ),
        # Its further lines are the compiler's.
        (
            "kernels/a/v1.cu does not compile for sm_90 (nvcc 13.0)\nv1.cu(3): error: expected",
            "kernels/a/v1.cu 无法为 sm_90 编译（nvcc 13.0）\nv1.cu(3): error: expected",
        ),
        # What stands before it is a place.
        ("kernels/a/v1.cu:3: unknown key `gird`", "kernels/a/v1.cu:3：未知的键 `gird`"),
        ("No such command 'lsit'. Did you mean `list`?", "没有命令 'lsit'。是不是指 `list`？"),
        # Names are nobody's sentence, also where one is a word of ours.
        ("study memory has no version `stale`", "课题 memory 没有版本 `stale`"),
        ("a sentence that is somebody else's", "a sentence that is somebody else's"),
        # The emulator's: who does what is one of a few words, and what it is done to any.
        (
            "a.cu:3: shared-memory race: thread (0, 0, 0) of block (1, 0, 0) writes Bs[0][0], "
            "which was read by several warps at a.cu:5 without a barrier between",
            "a.cu:3：共享内存竞争：线程块 (1, 0, 0) 的线程 (0, 0, 0) 写入 Bs[0][0]，"
            "而多个线程束在 a.cu:5 读过该位置，两者之间没有屏障",
        ),
        # Several lines and several sentences of ours are told each.
        (
            "a.cu:3: v5 gives a wrong result on n64: 2 of 4,096 elements are NaN\n"
            "  2 elements were never written\nout is the reference transposed",
            "a.cu:3：v5 在 n64 上结果错误：4,096 个元素中有 2 个是 NaN\n"
            "  有 2 个元素从未被写入\nout 等于参考结果的转置",
        ),
        (
            "Use blockIdx.x in the index. Negate the stored value.",
            "请在下标中使用 blockIdx.x。请把写入的值取相反数。",
        ),
        # A colon in code ends no place; the place of a further line does.
        (
            "`a ? b : c`: not an expression (invalid syntax)",
            "`a ? b : c`：不是表达式（invalid syntax）",
        ),
        (
            "a.cu:2: nothing fills `w`, which is __constant__: it holds zeros\n"
            "a.cu:9: v0 gives a wrong result on n: 1 of 2 elements are NaN",
            "a.cu:2：没有任何内容填入 __constant__ 变量 `w`：其值全为零\n"
            "a.cu:9：v0 在 n 上结果错误：2 个元素中有 1 个是 NaN",
        ),
        (
            "a.cu does not compile: it needs more memory than the 60 MiB that a compiler may take",
            "a.cu 无法编译：需要的内存超过了编译器可用的 60 MiB",
        ),
        # The worker's words, in the sentence of its failure.
        (
            "v1 crashed on n7 while running scale of v1: it read or wrote outside its arrays",
            "v1 在 n7 上崩溃（正在运行 v1 的 scale 时）：它读写了数组之外的位置",
        ),
        ("", ""),
    ],
)
def test_a_sentence_is_told_by_its_template(english: str, chinese: str) -> None:
    assert told(english) == english
    with using("zh"):
        assert told(english) == chinese


def test_every_template_knows_its_own_sentences() -> None:
    """Filled with names, each is told as its own translation, filled with the same."""
    templates = {
        str(text).removeprefix(TOLD): said
        for text, said in catalogue.together().items()
        if said and str(text).startswith(TOLD)
    }
    strange = []
    with using("zh"):
        for template, said in templates.items():
            names = {name: f"Name{place}" for place, name in enumerate(sorted(fields(template)))}
            words = {name: _WORDS[name][-1] for name in names if name in _WORDS}
            heard = told(template.format(**names | words))
            theirs = {name: templates[word] for name, word in words.items()}
            if heard != language._Chinese(said).format(**names | theirs):
                strange.append(f"{template!r} is told as {heard!r}")
    none(strange)


@pytest.mark.parametrize(
    "text",
    [
        "a: " * 3000 + "x",
        "kept " + "/ on (ncu , " * 900 + "\x00",
        "replaced @" + ": of , " * 900 + "on the GPU!",
    ],
)
def test_a_strangers_text_is_told_soon_and_whole(text: str) -> None:
    """A name in a sentence may hold every piece of it, as often as it likes."""
    with using("zh"):
        assert told(text) == text


def test_templates_within_templates_are_looked_for_so_often_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two kilobytes of them took a minute."""
    pick, looks, templates = random.Random(1), 0, language._templates

    def counted(lang: str) -> list[tuple[int, str, str, str]]:
        nonlocal looks
        looks += 1
        return templates(lang)

    monkeypatch.setattr(language, "_templates", counted)
    forms = sorted(form for *_, form, __ in templates("zh") if len(form) < 60)

    def made(depth: int) -> str:
        form = pick.choice(forms)
        names = fields(form)
        return form.format(**{n: made(depth - 1) if depth else "k of n. `b`" for n in names})

    with using("zh"):
        for _ in range(40):
            looks = 0
            told(". ".join(made(3) for _ in range(6))[:4000])
            assert 0 < looks <= language._LOOKS


def test_a_field_is_the_shortest_that_fits() -> None:
    form = _pattern("{one} of {two}{three}, {four} on {five}")
    found = form.match("1 of 2 of 3, 4 on on, 5")
    assert found and found.groups() == ("1", "", "2 of 3", "4", "on, 5")
    for text in ("1 of 2", "1 of 2 on 3, 4", "x", ""):
        assert not form.match(text)
    assert not _pattern("a {x} b").match("a b"), "what begins and ends it may not overlap"
    assert _pattern("a b").match("a b") and not _pattern("a b").match("a b c")
    assert _pattern("it {verb} {{x}}").match("it reads {x}")
    assert not _pattern("it {verb} {{x}}").match("it sees {x}")
