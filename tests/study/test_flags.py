"""Which flags a version may have: what chooses code, and nothing that starts or writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.study_maker import VERSION, Maker
from workbench.errors import UsageError
from workbench.study.flags import PTXAS, SWITCHES, VALUES, refusal, shell_safe

ROOT = Path(__file__).resolve().parents[2]

GOOD = [
    ("-O2",),
    ("-O", "1"),
    ("--optimize=3",),
    ("-use_fast_math",),
    ("--use_fast_math", "-fmad=false", "--ftz", "true"),
    ("-maxrregcount=64",),
    ("-maxrregcount", "128"),
    ("-std=c++20",),
    ("--std", "c++14"),
    ("-DTILE=4", "-D", "WIDE", "--define-macro=F(x)=((x) * 2)", "-UTILE"),
    ("-DNAME=\"text\"", "-DTYPE=unsigned long"),
    ("-Ikernels/include", "-I", "common", "-I=x", "--include-path=kernels/./a"),
    ("-Xptxas", "-v,-O2"),
    ("-Xptxas=-dlcm=cg,--warn-on-spills",),
    ("--ptxas-options=--maxrregcount=32",),
    ("-G", "-lineinfo", "-w", "-res-usage"),
    ("--expt-relaxed-constexpr", "-extended-lambda", "-diag-suppress=177,20012"),
    ("-rdc=true", "-Werror", "all-warnings", "-opt-info=inline"),
]  # fmt: skip


@pytest.mark.parametrize("flags", GOOD)
def test_flags_that_choose_how_code_is_made(flags: tuple[str, ...]) -> None:
    assert refusal(flags) is None


#: What of nvcc names a program, a place to write, a file outside, or brings flags of its own.
HARMFUL = [
    name
    for line in (
        "ccbin compiler-bindir arbin archiver-binary ldir libdevice-directory target-dir",
        "target-directory run run-args o output-file odir output-directory keep keep-dir",
        "save-temps objtemp objdir-as-tempdir time fdevice-time-trace clean clean-targets MF",
        "dependency-output MD MMD M MM MT E c dc dw dlink link lib cubin ptx fatbin optix-ir",
        "ltoir preprocess compile optf options-file include pre-include isystem system-include",
        "L l library library-path Xcompiler compiler-options Xlinker linker-options Xarchive",
        "archive-options Xnvlink nvlink-options forward-unknown-to-host-compiler",
        "forward-unknown-opts forward-unknown-to-host-linker dryrun x cudart gencode",
        "generate-code arch gpu-architecture code gpu-code noprof dont-use-profile",
        "use-local-env force-cl-env-setup qpp-config jobserver threads t host-linker-script hls",
        "augment-host-linker-script idp input-drive-prefix drive-prefix dp ddp",
        "dependency-drive-prefix sanitize frandom-seed pch-dir create-pch use-pch fplugin B",
        "specs wrapper input-as-string ias entry e gpu-name dump plugin",
    )
    for name in line.split()
]
VALUE = st.sampled_from(["/tmp/evil", "evil", "../evil", "@evil", "-v", "x.cu", "$(evil)", "true"])


@st.composite
def harmful(draw: st.DrawFn) -> list[str]:
    """One harmful flag in one of nvcc's spellings."""
    name, value = draw(st.sampled_from(HARMFUL)), draw(VALUE)
    dash = draw(st.sampled_from(["-", "--"]))
    return draw(
        st.sampled_from(
            [
                *([f"{dash}{name}", value], [f"{dash}{name}={value}"], [f"{dash}{name}"]),
                *([f"-Xptxas=-v,-{name}={value}"], ["-Xptxas", f"-{name},{value}"], ["evil.cu"]),
                *(["-I", f"-{name}"], ["-D", f"--{name}={value}"], ["-Xptxas", f"-{name}"]),
                *(["-O", f"-{name}"], ["-maxrregcount", "@evil"], ["-I", "/etc"], ["@evil"]),
                *(["-I", "a,/etc"], ["-I", "../.."], ["-Icommon/../../x"], ["-I", "@evil"]),
            ]
        )
    )


@given(
    st.lists(st.sampled_from(GOOD), max_size=3),
    harmful(),
    st.lists(st.sampled_from(GOOD), max_size=2),
)
@settings(max_examples=200)
def test_no_flag_that_names_a_program_or_a_place_gets_through(
    before: list[tuple[str, ...]], wrong: list[str], after: list[tuple[str, ...]]
) -> None:
    flags = [*(word for each in before for word in each), *wrong]
    flags += [word for each in after for word in each]
    told = refusal(flags)
    assert told is not None, flags
    named = re.match("`([^`]*)`", told[0])
    assert named is not None and named[1] in " ".join(wrong), told


@given(st.text(max_size=12), st.sampled_from(["$", "`", "\\", "\n", "\r", "\0", "\x1b"]), st.text())
def test_no_text_reaches_a_shell_that_acts_upon_it(before: str, mark: str, after: str) -> None:
    text = before + mark + after
    assert not shell_safe(text)
    for flags in ([f"-D{text}"], ["-D", f"A={text}"], ["-I", text], [f"-Xptxas={text}"], [text]):
        assert refusal(flags) is not None


ADVICE = [
    ("-ccbin=/tmp/evil", "-ccbin=/tmp/evil", "NVCC_PREPEND_FLAGS in your own environment"),
    ("-Xcompiler=-fplugin=x.so", "-Xcompiler", "device code only"),
    ("-o/tmp/x", "-o/tmp/x", "workbench docs front-matter"),
    ("--keep-dir=/tmp", "--keep-dir", "workbench decides"),
    ("-arch=sm_80", "-arch", "The architecture is that of"),
    ("-include=/etc/passwd", "-include", "#include"),
    ("@options", "`@options` is not a flag", "#include"),
    ("-use_fast_mat", "-use_fast_mat", "Did you mean -use_fast_math?"),
    ("-use_fast_math=1", "takes no value", "Write -use_fast_math."),
    ("-maxrregcount", "needs a value", "front-matter"),
    ("-maxrregcount=many", "cannot be `many`", "front-matter"),
    ("-I../../elsewhere", "outside the project", "relative to its root"),
    ("-DA=$(touch x)", "a shell may interpret", "without $"),
]


@pytest.mark.parametrize(("flag", "what", "hint"), ADVICE)
def test_a_flag_is_refused_by_name_with_its_line(
    maker: Maker, flag: str, what: str, hint: str
) -> None:
    maker.write("v0.cu", VERSION.replace("flags = []", f"flags = ['{flag}']"))
    with pytest.raises(UsageError) as caught:
        maker.load().version("v0")
    assert caught.value.message.startswith("kernels/s/v0.cu:7: ")
    assert what in caught.value.message
    assert hint in caught.value.hint


def test_a_define_is_no_command(maker: Maker) -> None:
    maker.write("v0.cu", VERSION.replace("TILE = 64", "TILE = 64\nNAME = '`touch x`'"))
    with pytest.raises(UsageError, match=r"v0\.cu:10: `NAME` contains a character that a shell"):
        maker.load().version("v0")


def test_the_documentation_lists_every_flag() -> None:
    text = (ROOT / "docs" / "front-matter.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`-([\w-]+)`", text))
    assert not {*SWITCHES, *VALUES, *PTXAS} - listed
