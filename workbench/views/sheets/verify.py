"""The table of ``workbench verify``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import asdict

from workbench.language import _, told
from workbench.measure.sanitizer import Finding, describe
from workbench.units import count, digits3, factor, quantity
from workbench.views.shapes import shaped
from workbench.views.shapes.measured import SanitizerFinding, VerifiedProblem, VerifyDocument
from workbench.views.sheets import Sheet

#: The columns of ``--format csv``.
_COLUMNS = (
    *("study", "version", "problem", "seed", "ok", "error", "tolerance"),
    *("compared", "unwritten", "sampled"),
)


def verify_sheet(
    study: str,
    seed: int,
    rows: Sequence[VerifiedProblem],
    findings: Sequence[tuple[str, Finding]],
    sanitized: Sequence[str],
    texts: dict[str, str],
) -> Sheet:
    """The table of ``workbench verify``.

    `findings` are (version, finding) from compute-sanitizer, `sanitized` the tools that ran.
    `texts` are the versions' sources by path, for the lines of findings.
    """
    # The message of a single check is already the command's error.
    notes = _once(rows) if len(rows) > 1 else []
    for version, finding in findings:
        notes.append(f"{version}: " + "\n".join(describe(finding, texts)))
    notes += dict.fromkeys(f"{row.version}: {told(said)}." for row in rows for said in row.notes)
    notes += _unproved(rows)
    if fixed := ", ".join(dict.fromkeys(row.version for row in rows if row.fixed)):
        notes.append(
            _(
                "inputs() of study.py gives the same for every seed, so a result that {versions} "
                "keeps from its first run would not be noticed."
            ).format(versions=fixed)
        )
    if sanitized and not findings:
        tools = ", ".join(sanitized)
        notes.append(_("compute-sanitizer ({tools}): no findings.").format(tools=tools))
    # A version may have its own tolerance; then each row's share is enough.
    tolerances = {row.tolerance for row in rows}
    title = _("study {study}, seed {seed}").format(study=study, seed=seed)
    if len(tolerances) == 1:
        title += _(", tolerance {value}").format(value=digits3(rows[0].tolerance))
    return Sheet(
        title=(title,),
        header=("version", "problem", "result", "error", "of tolerance", "compared"),
        shown=tuple(_cells(row) for row in rows),
        raw=tuple({"study": study, "seed": seed, **asdict(row)} for row in rows),
        columns=_COLUMNS,
        document=VerifyDocument(
            study=study,
            seed=seed,
            results=list(rows),
            sanitized=list(sanitized),
            findings=[
                shaped(finding, SanitizerFinding, version=version) for version, finding in findings
            ],
        ).plain(),
        notes=tuple(notes),
    )


#: Matches the place and kind of a kernel's fault; the thread differs on each problem.
_KIND = re.compile(r"\S+:\d+: [^:]+:")


def _once(rows: Sequence[VerifiedProblem]) -> list[str]:
    """Errors of a version, each once for all problems with the same error."""
    same: dict[tuple[str, str], list[VerifiedProblem]] = {}
    for row in rows:
        if row.message:
            kind = _KIND.match(row.message)
            same.setdefault((row.version, kind[0] if kind else row.message), []).append(row)
    notes = []
    for first, *rest in same.values():
        same_on = _("The same on {problems}.").format(problems=", ".join(x.problem for x in rest))
        notes += [told(first.message), *([same_on] if rest else ())]
        notes += [told(first.hint)] * bool(first.hint and not first.compared)
    return notes


def _unproved(rows: Sequence[VerifiedProblem]) -> list[str]:
    """Notes if a version's results are the study's reference, and about unwritten elements."""
    first = next((row for row in rows if row.against), None)
    if first is None:
        return []
    notes = [
        _(
            "The reference is the result of {version} (reference in study.py). Nothing proves that "
            "result: check it once by other means."
        ).format(version=first.against)
    ]
    if any(_differs(row) for row in rows):
        notes.append(
            _(
                "A version that does a different job from {version} needs a study of its own; "
                "`workbench new STUDY --from-cu FILE --kernel NAME` makes one from a kernel in a "
                ".cu file."
            ).format(version=first.against)
        )
    for row in rows:
        if row.version == row.against and row.ok and row.unwritten:
            notes.append(
                _("{version} leaves {n} of {all} elements unwritten on {problem}.").format(
                    version=row.version,
                    n=count(row.unwritten),
                    all=count(row.compared),
                    problem=row.problem,
                )
            )
    return notes


def _result(row: VerifiedProblem) -> str:
    if row.ok or not row.judged:
        return _("ok") if row.ok else _("not judged")
    if _differs(row):
        return _("DIFFERS")
    return _("WRONG") if row.compared else _("FAILED")


def _differs(row: VerifiedProblem) -> bool:
    """True if its result differs from that of the reference version."""
    other = row.against not in ("", row.version)
    return other and row.judged and not row.ok and row.compared > 0


def _cells(row: VerifiedProblem) -> tuple[str, ...]:
    # An error of zero is not the same as a missing comparison.
    share = "—"
    if row.version == row.against and row.ok:
        share = _("by itself")
    elif row.error is not None and not row.tolerance:
        share = _("exact") if row.error == 0 else _("not exact")
    elif row.error is not None:
        part = row.error / row.tolerance
        share = factor(part) if part > 1 else quantity(100 * part, "%")
    how_many = count(row.compared)
    if row.sampled:
        how_many = _("{n} sampled").format(n=how_many)
    return (
        row.version,
        row.problem,
        _result(row),
        "—" if row.error is None else digits3(row.error),
        share,
        how_many if row.compared else "—",
    )
