"""A small project with everything a report can meet, for the tests of the HTML views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.factories import (
    RULE,
    make_instructions,
    make_launch,
    make_metrics,
    make_profile,
    make_project,
    make_timing,
)
from workbench.model import Estimate, Notice, Profile, RuleFocus, SourceFile, Verification
from workbench.store import Store
from workbench.study.folder import run_study, source_hash

#: Ends a script element, starts one, and runs code from an attribute.
INJECTION = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>'\"&{{7*7}}"

VERIFIED = Verification(problem="n1024", error=3.1e-7, worst=1e-4, tolerance=1e-5, seed=7)


def study(root: Path) -> None:
    """``workbench.toml``, and no study: what is stored must be enough."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "workbench.toml").write_text('default_study = "demo"\n', encoding="utf-8")


def plain(root: Path) -> Path:
    """A ladder of three versions on one problem; the first is slower, the last only timed."""
    study(root)
    store = Store(root / "profiles")
    for version, seconds in (("v0", 620e-6), ("v2", 310e-6)):
        store.save(make_profile(version=version, verification=VERIFIED))
        store.save_timing(make_timing(seconds, version=version, flops=2 << 30, baseline="cublas"))
    store.save_timing(make_timing(100e-6, version="cublas", flops=2 << 30))
    return root


def wide(root: Path) -> Path:
    """A ladder with times over several sizes, whose last version launches two kernels."""
    project = make_project(root)
    study = root / "kernels" / "demo" / "study.py"
    sizes = "".join(f'    "n{n}": {{"N": {n}, "uses": ("sweep",)}},\n' for n in (256, 4096))
    text = study.read_text(encoding="utf-8").replace('("verify",)', '("verify", "sweep")')
    text = text.replace("problems = {\n", f"problems = {{\n{sizes}", 1)
    study.write_text(text, encoding="utf-8")
    demo, store = run_study(project, "demo"), Store.of(project)
    for n in (64, 256, 4096):
        for version, rate in (("v0", 1e11), ("v2", 2e11), ("v3", 4e11), ("library", 8e11)):
            if (version, n) == ("v0", 4096):
                continue
            ratio = Estimate(value=rate / 8e11, low=0.9 * rate / 8e11, high=rate / 8e11, n=50)
            against: dict[str, Any] = (
                {} if version == "library" else {"baseline": "library", "ratio": ratio}
            )
            old = (version, n) == ("v2", 64)
            timing = make_timing(
                5e-6 + 2 * n * n / rate,
                version=version,
                problem=f"n{n}",
                parameters={"N": n},
                flops=2 * n * n,
                bytes=8 * n * n,
                source_hash="0" * 64 if old else source_hash(project, demo.version(version)),
                **against,
            )
            store.save_timing(timing)
    profile = store.get(study="demo", version="v3")
    metrics = make_metrics(**{"gpu__time_duration.sum": 20e-6, "launch__registers_per_thread": 64})
    second = make_launch(
        kernel="finish", index=1, grid=(1, 1, 1), block=(32, 1, 1), metrics=metrics
    )
    store.save(msgspec.structs.replace(profile, launches=(*profile.launches, second)))
    return root


def hostile_profile(name: str = "v1", line: str = "a") -> Profile:
    """A profile whose every string is an attack; `line` is one line of its source."""
    rule = msgspec.structs.replace(
        RULE,
        title=INJECTION,
        message=f"{INJECTION} @url:{INJECTION}:javascript:alert(1)@ @section:x:{INJECTION}@",
        focus=(RuleFocus(metric=INJECTION, value=1.0),),
    )
    table = make_instructions()
    table = msgspec.structs.replace(
        table,
        text=tuple(f"{text} {INJECTION}" for text in table.text),
        ptx=tuple(f"{place}: {INJECTION}" for place in table.address),
    )
    launch = make_launch(
        kernel=f"k{INJECTION}", signature=INJECTION, rules=(rule,), instructions=table
    )
    string = f'const char* s = "{INJECTION}";'
    text = "\n".join([f"// {INJECTION}", "#define X", string, line, INJECTION])
    base = make_profile()
    return make_profile(
        version=f"{name}{INJECTION}"[:60],
        parameters={INJECTION: 1},
        launches=(launch,),
        device=msgspec.structs.replace(base.device, name=INJECTION),
        tools={"ncu": INJECTION, INJECTION: "1"},
        capture=msgspec.structs.replace(base.capture, command=("ncu", INJECTION)),
        sources=(SourceFile(path=f"a/{INJECTION}.cu", text=text),),
        notices=(Notice(code="x", message=INJECTION),),
        build=msgspec.structs.replace(base.build, log=INJECTION) if base.build else None,
    )


def hostile(root: Path) -> Path:
    """A project that holds two hostile profiles, a step from each other, and nothing else."""
    study(root)
    store = Store(root / "profiles")
    for name, line in (("v1", f"int a; // {INJECTION}"), ("v2", f"int b = 1; // {INJECTION}")):
        profile = hostile_profile(name, line)
        store.save(profile)
        store.save_timing(make_timing(1e-3, version=profile.version, device=profile.device))
    return root
