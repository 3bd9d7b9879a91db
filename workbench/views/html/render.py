"""Templates to HTML: one environment, strict about names, everything escaped."""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from workbench import __version__, units
from workbench.analysis.compare import Delta
from workbench.analysis.expectations import find_counter
from workbench.analysis.limits.limit import Share, breakdown
from workbench.counters import Counter, catalog
from workbench.features import FEATURES
from workbench.language import _, current, ngettext, told
from workbench.model import Estimate, Launch
from workbench.views.html.page import View, file_beside, rung_page, to_root
from workbench.views.html.parts import Phrase, hue, interval, percent, shape, text, tone_of, width
from workbench.views.text.safe_output import block, name_parts

_HERE = Path(__file__).parent
#: A page loads only files beside it, and sends nothing.
POLICY = (
    "default-src 'self' 'unsafe-inline' data: blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'"
)
#: A link to the glossary; escaping leaves neither quotes in its title nor tags in its text.
_TERM = re.compile(r'(<a href="[./]*glossary\.html#[^"]*")( title="[^"]*")(>[^<]*</a>)')


#: Ends of cells and rows that the next tag implies. https://html.spec.whatwg.org/#optional-tags
_ROW_END = re.compile(r"</t[dhr]>(?=\s*</?(?:td|th|tr|tbody|thead|table)\b)")
_BODY_END = re.compile(r"</t(?:body|head)>\s*(?=</?(?:tbody|table)\b)")


@lru_cache(maxsize=1 << 12, typed=True)
def term(counter: str, title: str, meaning: str, root: str) -> Markup:
    """A link to a counter's meaning; cached, as pages name the same counters repeatedly."""
    said = Markup(' title="{}"').format(meaning) if meaning else ""
    return Markup('<a href="{}glossary.html#{}"{}>{}</a>').format(root, counter, said, title)


def explained(counter: str, root: str) -> Markup:
    """A counter's title as a link to its meaning, with the meaning as text."""
    known = catalog()[counter]
    return term(counter, known.title, known.meaning, root)


def stall(launch: Launch) -> Share | None:
    """The largest stall; None if the report has no stalls."""
    return breakdown(launch).top


def gained(share: float) -> str:
    """The part of a duration that was saved; if it grew, the growth with its sign."""
    return percent(share) if share > 0 else units.signed(-share * 100, "%")


#: Ends a clause.
_END = re.compile(r"[.;:](?:\s|$)")


def clause(text: str) -> str:
    """The first clause of an author's text; the version's page has the whole text."""
    return _END.split(text, maxsplit=1)[0].rstrip(".")


def apart(speedup: Estimate) -> str:
    """The class of a ratio of two times: "" if a bound is 1, or is written as 1, or it is small."""
    if units.digits3(1.0) in map(units.digits3, (speedup.low, 1 / speedup.high)):
        return ""
    return tone_of(units.won(speedup.value)) if not speedup.low <= 1 <= speedup.high else ""


def bounds(speedup: Estimate) -> str:
    """The bounds of a ratio of two times; for a slow-down, as factors of the time."""
    return units.interval(speedup.low, speedup.value, speedup.high)


def step_ratio(speedup: Estimate) -> str:
    """``1.38×`` if it is faster, else ``1.22× slower``."""
    return units.factor(speedup.value) if speedup.value >= 1 else units.faster(speedup.value)


def predicted(change: str) -> str:
    """An author's prediction: a bound as it was written, a direction as a word."""
    return {"up": _("up"), "down": _("down"), "same": _("same")}.get(change, change)


def floor(counter: Counter) -> str:
    """The noise of a counter between two captures: ``2% and 1 points``, ``exact``."""
    parts = []
    if counter.noise:
        parts.append(units.tick(100 * counter.noise, "%"))
    if counter.floor:
        printed = counter.unit if counter.unit in ("byte", "s") else ""
        unit = {"%": _(" points"), "byte": "", "s": ""}.get(counter.unit, f" {counter.unit}")
        parts.append(f"{units.tick(counter.floor, printed)}{unit}".rstrip())
    return _(" and ").join(parts) or _("exact")


def relative(delta: Delta) -> str:
    """A change for readers: points for percentages, else the ratio."""
    if delta.old is None or delta.new is None:
        return units.quantity(None)
    if delta.unit == "%":
        return units.points(float(delta.new) - float(delta.old))
    if delta.old == 0:
        return units.signed(delta.new, delta.unit)
    return units.relative(delta.old, delta.new)


def amount(delta: Delta) -> str:
    """A change in its counter's unit, and relative to the old value if that is informative."""
    said = relative(delta)
    if delta.unit != "%" and delta.old and delta.delta is not None:
        return f"{units.signed(delta.delta, delta.unit)} · {said}"
    return said


def noise(delta: Delta) -> str:
    """The largest change that still counts as none: ``±2.00%``, ``exact``."""
    if delta.old is None or delta.new is None:
        return units.quantity(None)
    scale = max(abs(float(delta.old)), abs(float(delta.new)))
    # `compare` has a floor of a billionth for rounding errors: readers see "exact".
    if delta.noise <= 2e-9 * scale or not delta.noise:
        return _("exact")
    return f"±{units.quantity(delta.noise, delta.unit)}"


def key(value: float | None) -> str:
    """The sort key of a cell."""
    return "" if value is None else f"{float(value):.6g}"


_MARKUP = re.compile(r"@(section|url):([^@]*?)@")


def message(raw: str) -> tuple[Phrase, ...]:
    """Split ncu's message at its own markup (``@url:text:address@``, ``@section:id:text@``).

    Only https links to NVIDIA's pages become links; a report may hold anything.
    """
    out: list[Phrase] = []
    end = 0
    for match in _MARKUP.finditer(raw):
        out.append(Phrase(raw[end : match.start()]))
        label, _, rest = match.group(2).partition(":")
        if match.group(1) == "url":
            safe = rest.startswith("https://docs.nvidia.com/")
            out.append(Phrase(label, rest if safe else ""))
        else:
            out.append(Phrase(rest or label))
        end = match.end()
    out.append(Phrase(raw[end:]))
    return tuple(part for part in out if part.text)


_TONES = {
    **dict.fromkeys(("better", "confirmed", "kept", "optimization"), "good"),
    **dict.fromkeys(("worse", "refuted", "not kept", "error"), "bad"),
    **dict.fromkeys(("inconclusive", "partly", "warning"), "warn"),
}
#: All formatting for templates: from records of the analysis to texts of `workbench.units`.
_FILTERS = {
    **{each.__name__: each for each in (units.count, units.factor, units.faster, units.listed)},
    **{each.__name__: each for each in (units.points, units.plural, units.quantity, units.signed)},
    **{each.__name__: each for each in (apart, clause, explained, floor, gained, hue)},
    **{each.__name__: each for each in (interval, key, message, percent, predicted, shape)},
    **{each.__name__: each for each in (stall, step_ratio, term, told, width)},
    **{each.__name__: each for each in (amount, noise, relative, units.won)},
    "counter": find_counter,
    "digits": units.digits3,
    "from": lambda html, page: Markup(str(html).replace('href="#', f'href="{page}#')),
    "group": lambda identity: catalog().group_title(identity),
    "page": rung_page,
    "parts": name_parts,
    "range": bounds,
    "reading": text,
    "shell": shlex.join,
    "side": tone_of,
    "symbol": units.symbol,
    "tone": lambda verdict: _TONES.get(verdict, ""),  # a class, for any kind of verdict
    "unit": units.beside,
}


def titles(*names: str) -> tuple[str, ...]:
    """Headings of a table in the reader's language, each with its mark for `sheet`."""
    return tuple(f"#{_(name[1:])}" if name.startswith("#") else _(name) for name in names)


def tongue() -> str:
    """The language of a page, as HTML names it."""
    return "zh-CN" if current() == "zh" else current()


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The template environment, made once per process.

    `StrictUndefined`: a name that a view model lacks is an error in a test, not a gap in a page.
    ``tojson`` (Jinja's own) escapes ``<``, ``>``,
    ``&`` and ``'``, so JSON inside a script element cannot end it.
    """
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(
            [_HERE / "templates", *(each.folder / "templates" for each in FEATURES)]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.i18n"],
    )
    env.globals |= {"_": _, "gettext": _, "ngettext": ngettext, "titles": titles, "tongue": tongue}
    # Letters stay unescaped: escaped, Chinese would take twice the bytes.
    plain = {"separators": (",", ":"), "sort_keys": False, "ensure_ascii": False}
    env.policies["json.dumps_kwargs"] = plain
    env.filters |= _FILTERS
    env.globals["tool_version"] = __version__
    env.globals["policy"] = POLICY
    return env


def render(template: str, path: str, **context: object) -> str:
    """Render one page.

    `path` is the page's path in the site, with forward slashes: links to the site's root are made
    relative to it. No character of `context` hides or reorders others on the page.
    """
    card = file_beside(path, ".card.svg")
    html = environment().get_template(template).render(root=to_root(path), card=card, **context)
    return block(without_ends(said_once(html)))


def card(path: str, view: View) -> dict[str, bytes]:
    """A step's or ladder's picture for sharing, 1200 × 630, by its file name beside the page."""
    return {file_beside(path, ".card.svg"): render("card.svg", path, view=view).encode()}


def without_ends(html: str) -> str:
    """A page without the optional end tags in tables, which are most of its bytes.

    The blank after a cell stays, for cells that share a line on a phone. Blanks after several rows
    are removed, as they would add a line to code at the end of these rows.
    """
    return _BODY_END.sub("", _ROW_END.sub("", html))


def said_once(html: str) -> str:
    """A page with each counter's meaning only at its first mention.

    The page's script shows it at the other mentions too. A page with four launches names every
    counter four times, and would be a third longer.
    """
    said: set[tuple[str, str]] = set()

    def once(found: re.Match[str]) -> str:
        link, title, rest = found.groups()
        if (title, rest) in said:
            return link + rest
        said.add((title, rest))
        return found[0]

    return _TERM.sub(once, html)
