"""The compiler flags that a version may ask for: an allow-list by kind, all else refused.

A version's file may be somebody else's, and nvcc takes far more than what decides the code of
a kernel: programs to start (``-ccbin``), places to write (``-o``, ``-keep-dir``), files with
further options (``-optf``, ``@file``). What is named here chooses how device code is made, and
nothing besides. What is given is refused before any compiler starts.

nvcc starts its programs through a shell and quotes what it passes on with ``"``, within which
``$``, a backtick and a backslash keep their meaning. No text of a project that reaches its
command line may hold one of them: flags, defines, and the path of the file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from workbench.errors import nearest

#: By what kind of thing they are, the names of flags without a value, as nvcc knows them.
SWITCHES: dict[str, tuple[str, ...]] = {
    "code": (
        "use_fast_math",
        "restrict",
        "extra-device-vectorization",
        "extensible-whole-program",
        "ewp",
        "keep-device-functions",
        "no-align-double",
    ),
    "debugging": (
        *("device-debug", "G", "debug", "g", "generate-line-info", "lineinfo"),
        *("source-in-ptx", "src-in-ptx"),
    ),
    "language": (
        *("expt-relaxed-constexpr", "expt-extended-lambda", "extended-lambda"),
        *("no-exceptions", "noeh", "device-int128", "default-device"),
    ),
    "messages": (
        *("disable-warnings", "w", "resource-usage", "res-usage"),
        *("display-error-number", "err-no", "no-display-error-number", "no-err-no"),
        *("Wreorder", "Wmissing-launch-bounds", "Wext-lambda-captures-this"),
        *("Wno-deprecated-declarations", "Wno-deprecated-gpu-targets"),
    ),
}
_TRUTH = "true|false"
_NAME = r"[A-Za-z_]\w*"
#: The same of flags with a value, and what that may be.
VALUES: dict[str, dict[str, str]] = {
    "code": {
        **dict.fromkeys(("optimize", "O"), "[0-3]"),
        **dict.fromkeys(("Ofast-compile", "Ofc"), "0|min|mid|max"),
        "maxrregcount": r"\d{1,3}",
        **dict.fromkeys(("ftz", "prec-div", "prec-sqrt", "fmad"), _TRUTH),
        **dict.fromkeys(("relocatable-device-code", "rdc", "device-stack-protector"), _TRUTH),
        **dict.fromkeys(("jump-table-density", "jtd"), r"\d{1,3}"),
    },
    "language": {
        "std": r"(?:c|gnu)\+\+\d[\dax]",
        "ftemplate-depth": r"\d{1,6}",
    },
    "messages": {
        "ftemplate-backtrace-limit": r"\d{1,6}",
        **dict.fromkeys(("diag-error", "diag-suppress", "diag-warn"), r"\d+(?:,\d+)*"),
        "Werror": r"[a-z-]+(?:,[a-z-]+)*",
        **dict.fromkeys(("optimization-info", "opt-info"), "inline"),
    },
    "defines": {
        # What it is defined as is looked at by `shell_safe`.
        **dict.fromkeys(("define-macro", "D"), rf"{_NAME}(?:\([\w, .]*\))?(?:=.*)?"),
        **dict.fromkeys(("undefine-macro", "U"), _NAME),
    },
    "includes": dict.fromkeys(("include-path", "I"), r"[^,@-][^,]*"),
    "ptxas": dict.fromkeys(("ptxas-options", "Xptxas"), ".+"),
}
_REGISTERS = r"\d{1,3}|arch(?:max|min)"
#: What ``-Xptxas`` may pass on; "" for those without a value.
PTXAS: dict[str, str] = {
    **dict.fromkeys(("opt-level", "O"), "[0-4]"),
    **dict.fromkeys(("Ofast-compile", "Ofc"), "0|min|mid|max"),
    **dict.fromkeys(("maxrregcount", "device-function-maxrregcount"), _REGISTERS),
    "func-maxrregcount": _REGISTERS,
    **dict.fromkeys(("register-usage-level", "regUsageLevel"), r"\d|10"),
    "minnctapersm": r"\d{1,2}",
    **dict.fromkeys(("def-load-cache", "dlcm", "force-load-cache", "flcm"), "[a-z]{2}"),
    **dict.fromkeys(("def-store-cache", "dscm", "force-store-cache", "fscm"), "[a-z]{2}"),
    **dict.fromkeys(("fmad", "allow-expensive-optimizations"), _TRUTH),
    **dict.fromkeys(("position-independent-code", "pic", "device-stack-protector"), _TRUTH),
    **dict.fromkeys(("verbose", "v", "disable-warnings", "w", "warning-as-error", "Werror"), ""),
    **dict.fromkeys(("warn-on-spills", "warn-spills", "warn-on-local-memory-usage"), ""),
    **dict.fromkeys(("warn-lmem-usage", "warn-on-double-precision-use", "warn-double-usage"), ""),
    **dict.fromkeys(("disable-optimizer-constants", "disable-optimizer-consts"), ""),
    **dict.fromkeys(("dont-merge-basicblocks", "no-bb-merge", "return-at-end", "ret-end"), ""),
    **dict.fromkeys(("device-debug", "g", "generate-line-info", "lineinfo"), ""),
    **dict.fromkeys(("optimize-float-atomics", "opt-fp-atomics", "sp-bounds-check"), ""),
    **dict.fromkeys(("extensible-whole-program", "ewp", "override-directive-values"), ""),
    **dict.fromkeys(("suppress-double-demote-warning", "suppress-stack-size-warning"), ""),
}
_SWITCHES = frozenset(name for names in SWITCHES.values() for name in names)
_VALUES = {name: form for forms in VALUES.values() for name, form in forms.items()}
#: Flags of one letter whose value may follow at once: ``-DTILE=4``.
_GLUED = re.compile(r"-([DUIO])(.+)", re.DOTALL)
_INCLUDES = ("include-path", "I")
_PTXAS = ("ptxas-options", "Xptxas")

_PROGRAMS = (
    "A project must not choose which programs run: set NVCC_PREPEND_FLAGS in your own environment."
)
_PLACES = "workbench decides which files are written where: leave it out."
_DEVICE = "Versions are compiled to device code only, and not linked: leave it out."
_ADVICE: dict[str, tuple[str, ...]] = {
    _PROGRAMS: (
        *("ccbin", "compiler-bindir", "arbin", "archiver-binary", "ldir", "libdevice-directory"),
        *("target-dir", "target-directory", "use-local-env", "run", "run-args", "qpp-config"),
        *("dont-use-profile", "noprof", "jobserver", "allow-unsupported-compiler"),
    ),
    _PLACES: (
        *("o", "output-file", "odir", "output-directory", "keep", "keep-dir", "save-temps"),
        *("objtemp", "objdir-as-tempdir", "time", "fdevice-time-trace", "clean", "clean-targets"),
        *("MF", "dependency-output", "M", "MM", "MD", "MMD", "cubin", "ptx", "fatbin", "E", "c"),
    ),
    _DEVICE: (
        *("Xcompiler", "compiler-options", "Xlinker", "linker-options", "Xarchive", "Xnvlink"),
        *("archive-options", "nvlink-options", "l", "library", "L", "library-path", "shared"),
        *("forward-unknown-to-host-compiler", "forward-unknown-to-host-linker", "lib", "link"),
        *("forward-unknown-opts", "cudart", "cudadevrt", "hls", "host-linker-script", "fPIC"),
    ),
    "Write the flags themselves into `flags`.": ("optf", "options-file"),
    "Write #include into the file, and name folders of the project with -I.": (
        *("include", "pre-include", "isystem", "system-include"),
    ),
    "The architecture is that of the device, or of --arch: leave it out.": (
        *("arch", "gpu-architecture", "code", "gpu-code", "gencode", "generate-code", "m", "m64"),
    ),
}
_LISTED = "`workbench docs front-matter` lists the flags that a version may have."


def refusal(flags: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with the first flag that may not be given, and what to do; None: nothing."""
    for flag, name, value in _read(flags):
        if not name:
            kind = "further options" if flag.startswith("@") else "code"
            return (
                f"`{_shown(flag)}` is not a flag, and would be taken for a file of {kind}",
                "Flags begin with `-`; use #include for other sources.",
            )
        if not shell_safe(flag) or not shell_safe(value or ""):
            return f"`{_shown(flag)}` contains a character that a shell may interpret", UNSAFE
        if name in _SWITCHES and value is None:
            continue
        if name not in _VALUES or value is None:
            return _refused(flag, name)
        if not re.fullmatch(_VALUES[name], value):
            return f"`{flag}`: {name} cannot be `{value}`", _LISTED
        if name in _INCLUDES and not _inside(value):
            return (
                f"`{flag}` leads outside the project",
                "Name a folder of the project, relative to its root; copy there what is needed.",
            )
        if name in _PTXAS and (wrong := _ptxas(value)):
            return f"`{wrong}` may not be passed to ptxas", _LISTED
    return None


#: The hint for a text that is not `shell_safe`.
UNSAFE = "nvcc passes it to a shell: write it without $, backtick, backslash and line end."


def shell_safe(text: str) -> bool:
    """Whether a text means itself between the double quotes that nvcc puts around it."""
    return not any(each in "$`\\" or not each.isprintable() for each in text.replace("\t", " "))


def _read(flags: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    """Flag by flag: as it was written, its name (empty: it is none), its value."""
    words = iter(flags)
    for word in words:
        body = word.removeprefix("-").removeprefix("-")
        name, mark, value = body.partition("=")
        if not word.startswith("-") or not name:
            yield word, "", None
        elif name in _SWITCHES or (name in _VALUES and mark):
            yield word, name, value if mark else None
        elif name in _VALUES:
            following = next(words, None)
            yield f"{word} {following or ''}".rstrip(), name, following
        elif (glued := _GLUED.fullmatch(word)) and name not in _KNOWN:
            yield word, glued[1], glued[2].removeprefix("=") if glued[1] == "I" else glued[2]
        else:
            yield word, name, value if mark else None


_KNOWN = {name: hint for hint, names in _ADVICE.items() for name in names}


def _refused(flag: str, name: str) -> tuple[str, str]:
    if name in _VALUES:
        return f"`{flag}` needs a value", _LISTED
    if name in _SWITCHES:
        return f"`{flag}`: {name} takes no value", f"Write -{name}."
    if name in _KNOWN:
        return f"`{flag}` cannot be chosen by a version", _KNOWN[name]
    close = nearest(name, [*_SWITCHES, *_VALUES])
    meant = f"Did you mean -{close}? " if close else ""
    return f"`{flag}` is not among the flags that a version may have", meant + _LISTED


def _inside(folder: str) -> bool:
    """Whether a folder is written as one of the project."""
    plain = posixpath.normpath(folder)
    return not (posixpath.isabs(plain) or plain.startswith("..") or re.match(r"[A-Za-z]:|~", plain))


def _ptxas(text: str) -> str:
    """The first option for ptxas that may not be given; "" where all may."""
    for option in text.split(","):
        name, mark, value = option.removeprefix("-").removeprefix("-").partition("=")
        if not mark and re.fullmatch(r"-O\d", option):
            name, value = "O", option[2:]
        form = PTXAS.get(name)
        if not option.startswith("-") or form is None or not re.fullmatch(form, value):
            return option
        if mark and not form:
            return option
    return ""


def _shown(text: str) -> str:
    return text.encode("unicode_escape").decode() if not text.isprintable() else text
