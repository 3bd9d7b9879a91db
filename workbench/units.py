"""The only place that formats numbers. Inside the program: seconds and bytes.

Four significant digits would suggest a precision that a GPU timing rarely has,
two would hide a 3% gain; every formatted quantity therefore has three.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from workbench import language
from workbench.language import _, ngettext

Number = int | float

_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))
_MINUS = "−"
#: Smaller percentages are shown as this one: one sample in half a million is not a measurement.
_LEAST = 0.01
#: The most decimal places; no counter has a meaningful smaller value.
_PLACES = 8

#: Base units that take SI prefixes, and how they are printed.
_SYMBOLS = {
    "s": "s",
    "byte": "B",
    "hz": "Hz",
    "byte/s": "B/s",
    "flop/s": "FLOP/s",
    "flop": "FLOP",
    "op/s": "OP/s",  # for studies that count integer operations
    "op": "OP",
    "w": "W",
}
#: Base units that are shown below one as well (milli, micro, nano).
_DIVISIBLE = {"s"}


def digits3(value: float) -> str:
    """Three significant digits; an exponent only below 0.0001, as usual for relative errors."""
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if magnitude >= 99.95:
        text = f"{value:,.0f}"
    elif magnitude >= 9.995:
        text = f"{value:.1f}"
    elif magnitude >= 0.9995:
        text = f"{value:.2f}"
    else:
        text = f"{value:.3g}"
        if "e" not in text:
            # "#" keeps the zeros: 0.900 beside 1.20, like 1.00.
            text = f"{value:#.3g}"
    return text.replace("-", _MINUS)


def _fixed(value: float) -> str:
    """`digits3` without an exponent, as readers expect: 0.0000665 beside 0.26."""
    text = digits3(value)
    if "e" not in text:
        return text
    places = min(2 - math.floor(math.log10(abs(value))), _PLACES)
    text = f"{value:.{places}f}"
    return text.replace("-", _MINUS) if text.strip("-0.") else "0"


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    magnitude = abs(value)
    for factor, prefix in steps:
        # 0.9995 keeps 999.7 µs from printing as "1,000 µs" instead of "1.00 ms".
        if magnitude >= factor * 0.9995:
            return value / factor, prefix
    factor, prefix = steps[-1]
    return value / factor, prefix


@lru_cache(maxsize=1 << 13, typed=True)
def quantity(value: Number | str | None, unit: str = "") -> str:
    """Format a value in its base unit for a reader: ``312 µs``, ``33.6 M``, ``87.7%``.

    None prints as an em dash; a string prints as it is. `unit` is a base unit as in
    `workbench.model.Metric`: ``s``, ``byte``, ``%`` …
    """
    if value is None:
        return "—"
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else f"{_MINUS}∞"
    if unit == "%":
        if 0 < abs(value) < _LEAST:
            return f"< {_LEAST}%" if value > 0 else f"> {_MINUS}{_LEAST}%"
        return f"{digits3(value)}%"
    symbol = _SYMBOLS.get(unit)
    if symbol is None:
        return count(value)
    if value == 0:
        return f"0 {symbol}"
    if unit in _DIVISIBLE and abs(value) < 0.9995:
        number, prefix = _scaled(value, _SMALL)
    else:
        number, prefix = _scaled(value, _SI)
    return f"{_fixed(number)} {prefix}{symbol}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """Words as a phrase: ``a``, ``a and b``, ``a, b and c``, ``a, b, c and 7 more``."""
    if len(words) > most:
        left = len(words) - most + 1
        words = [*words[: most - 1], _("{n} more").format(n=left)]
    if len(words) < 2:
        return "".join(words)
    some, *others = words[:-1]
    for each in others:
        some = _("{some}, {next}").format(some=some, next=each)
    return _("{some} and {last}").format(some=some, last=words[-1])


def joined(sentences: Iterable[str]) -> str:
    """Sentences one after the other, without the empty ones."""
    text = " ".join(filter(None, sentences))
    return text if language.current() == "en" else text.replace("。 ", "。")


def count(value: Number) -> str:
    """A count or a bare ratio: ``512``, ``33.6 M``, ``0.24``."""
    if isinstance(value, int) and abs(value) < 10_000:
        return f"{value:,}".replace("-", _MINUS)
    if abs(value) < 9_999.5:
        return _fixed(value)
    number, prefix = _scaled(value, _SI)
    return f"{digits3(number)} {prefix}".rstrip()


def signed(value: Number, unit: str = "") -> str:
    """A difference, always with its sign: ``+1.20 ms``, ``−32.5 M``, ``±0``."""
    if value == 0:
        return "±0"
    text = quantity(value, unit)
    return text if value < 0 else f"+{text}"


def span(low: str, high: str, dash: str = "") -> str:
    """The ends of an interval: ``406 µs to 408 µs``; only one if both are formatted the same."""
    between = f"{{low}}{dash}{{high}}" if dash else _("{low} to {high}")
    return low if low == high else between.format(low=low, high=high)


def interval(low: float, value: float, high: float) -> str:
    """Bounds of a speed-up: ``3.01 – 3.03``, or ``±0.0213%`` if their digits are the same.

    Below one, the bounds of the slow-down: how many times as long it takes.
    """
    ends = (1 / high, 1 / low) if value < 1 else (low, high)
    texts = [digits3(end) for end in ends]
    half = quantity(100 * (ends[1] - ends[0]) / sum(ends), "%")
    return f"±{half}" if texts[0] == texts[1] else " – ".join(texts)


def points(value: float) -> str:
    """A difference of two percentages: ``+24.7 points``."""
    return _("{n} points").format(n=signed(float(value)))


def relative(old: Number, new: Number) -> str:
    """Format the change from old to new in percent, or as a factor if it is large.

    ``−99.3%``, ``+12%``, ``×9.61``; an em dash if `old` is zero. ``−100.0%``: it is zero now.
    """
    if old == 0:
        return "—" if new != 0 else "±0%"
    ratio = new / old
    if ratio >= 2:
        return f"×{digits3(ratio)}"
    percent = 100.0 * (ratio - 1.0)
    if abs(percent) < 0.05:
        return "±0%"
    sign = "+" if percent > 0 else _MINUS
    if new != 0 and percent < -99.95:
        return f"{_MINUS}99.9%"
    return f"{sign}{abs(percent):.1f}%"


def factor(value: float) -> str:
    """A speed-up: ``1.39×``."""
    return f"{digits3(value)}×"


def beside(unit: str) -> str:
    """The unit to write beside a `quantity`; "" if its text includes the unit."""
    return "" if unit in ("", "%", *_SYMBOLS) else unit


def capital(text: str) -> str:
    """The text with a capital first letter; no other letter changes."""
    return text[:1].upper() + text[1:]


def inside(text: str) -> str:
    """A text with a small first letter, for use in a sentence; abbreviations keep capitals."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def faster(speedup: float, more: str | None = None) -> str:
    """``1.38× faster``, ``2.10× slower``; in percent if the factor would round to one.

    If the amounts of work differ (`more` says how), no side is called faster:
    ``2.10× the time for 4.00× the data``.
    """
    if more is not None:
        text = _("{factor} the time for {more}") if more else _("{factor} the time")
        return text.format(factor=factor(1 / speedup), more=more)
    ratio = max(speedup, 1 / speedup)
    if factor(ratio) == factor(1.0):
        words = _("{percent} faster") if speedup >= 1 else _("{percent} slower")
        return words.format(percent=quantity(100 * (ratio - 1), "%"))
    words = _("{factor} faster") if speedup >= 1 else _("{factor} slower")
    return words.format(factor=factor(ratio))


def won(speedup: float) -> bool | None:
    """True if it is faster, False if slower; None up to 1.01×, which is no win."""
    return None if digits3(max(speedup, 1 / speedup)) in ("1.00", "1.01") else speedup > 1


def when(captured: str) -> str:
    """An ISO time for people: ``2026-11-20 23:51 UTC``; a word if it is unknown."""
    if not captured:
        return _("at an unknown time")
    return f"{captured[:10]} {captured[11:16]} UTC" if len(captured) >= 16 else captured


def extent(size: Sequence[int], times: str = "×", *, whole: bool = False) -> str:
    """A grid or block, exact, without trailing ones: ``32×32``, ``16,384``.

    `whole` includes the ones, and writes numbers as code does: ``4096×1×1``.
    """
    if whole:
        return times.join(map(str, size))
    last = max((place for place, part in enumerate(size) if part != 1), default=0)
    return times.join(f"{part:,}" for part in size[: last + 1])


def tick(value: Number, unit: str = "") -> str:
    """A round value on an axis, like `quantity` but without trailing zeros: ``10 TFLOP/s``."""
    number, space, symbol = quantity(value, unit).partition(" ")
    percent = "%" if number.endswith("%") else ""
    number = number.removesuffix("%")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number}{percent}{space}{symbol}"


def tick_row(values: Sequence[Number], unit: str = "") -> list[str]:
    """The ticks of one axis: as `tick`, but with enough decimal places to tell them apart."""
    texts = [tick(value, unit) for value in values]
    if len(set(texts)) == len(set(values)):
        return texts
    largest = max(map(abs, values))
    steps = _SMALL if unit in _DIVISIBLE and largest < 0.9995 else _SI
    number, prefix = (largest, "") if unit == "%" else _scaled(largest, steps)
    factor = largest / number
    gap = min(b - a for a, b in itertools.pairwise(sorted(set(values)))) / factor
    places = max(0, math.ceil(-math.log10(gap)))
    tail = "%" if unit == "%" else f" {prefix}{_SYMBOLS.get(unit, '')}".rstrip()
    return [f"{value / factor:,.{places}f}".replace("-", _MINUS) + tail for value in values]


def symbol(unit: str) -> str:
    """Return the written form of a base unit: ``byte/s`` -> ``B/s``."""
    return _SYMBOLS.get(unit, unit)


def plural(unit: str) -> str:
    """A counter's unit after a number: ``wavefronts``, ``cycles/inst``, ``branches``."""
    noun, slash, per = unit.partition("/")
    ending = "" if noun in ("", "inst") else "es" if noun.endswith("ch") else "s"
    noun += ending
    return f"{_(noun)}{slash}{_(per)}"


def several(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 block``, ``2,048 blocks``, ``3 launches``."""
    one, many = f"{{n}} {noun}", f"{{n}} {plural or noun + 's'}"
    return language.ngettext(one, many, number).format(n=count(number))


def lines_changed(old: tuple[int, int], new: tuple[int, int]) -> str:
    """Describe a hunk's lines: ``line 38 → 38``, ``lines 3–5 → 3–6``, ``added line 47``.

    Each is (first, last); the last line is before the first if a side has no lines.
    """
    if old[1] < old[0]:
        words = ngettext("added line {new}", "added lines {new}", _amount(new))
        return words.format(new=lines_span(new))
    if new[1] < new[0]:
        words = ngettext("removed line {old}", "removed lines {old}", _amount(old))
        return words.format(old=lines_span(old))
    words = ngettext("line {old} → {new}", "lines {old} → {new}", max(_amount(old), _amount(new)))
    return words.format(old=lines_span(old), new=lines_span(new))


def lines_named(lines: tuple[int, int]) -> str:
    """First and last line in words: ``line 7``, ``lines 3–5``."""
    return ngettext("line {lines}", "lines {lines}", _amount(lines)).format(lines=lines_span(lines))


def _amount(lines: tuple[int, int]) -> int:
    return lines[1] - lines[0] + 1


def lines_span(lines: tuple[int, int]) -> str:
    """First and last line: ``7``, ``3–5``."""
    return span(f"{lines[0]}", f"{lines[1]}", "–")
