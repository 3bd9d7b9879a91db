"""``tune``: every choice of a version's parameters, the best and the effects."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.ladder.tunings import Value, Values
from workbench.tune.effects import Cliff, Effect, Effects, ValueCost, WrongChoice
from workbench.views.shapes import Document
from workbench.views.shapes.step import StepDocument


class TuneTrial(Document, frozen=True):
    """A choice of values on one problem and its outcome; see docs/json.md."""

    values: Values
    problem: str
    fate: str
    why: str
    registers: int | None
    shared: int | None
    occupancy: float | None
    bound_s: float | None
    estimate: float | None
    samples: int
    low_s: float | None
    median_s: float | None
    high_s: float | None
    gpu_s: float | None
    verified: tuple[str, ...]


class TuneWinner(Document, frozen=True):
    """The best choice on a problem; `times_default`: how many times faster than without tuning."""

    problem: str
    best: TuneTrial
    default: TuneTrial | None
    times_default: float | None
    runner_up: TuneTrial | None


class TuneValue(Document, ValueCost, frozen=True):
    """A value of a parameter: its choices with a time, and its time over that of the best value."""


class TuneEffect(Document, Effect, frozen=True):
    """The share (0-1) of the variance due to one parameter or two; null for the reason in `why`."""

    levels: tuple[TuneValue, ...] = ()


class TuneEffects(Document, Effects, frozen=True):
    """The parameters that matter on a problem; `complete`: every combination was timed."""

    mains: tuple[TuneEffect, ...]
    pairs: tuple[TuneEffect, ...]


class TuneCliff(Document, Cliff, frozen=True):
    """One step of one parameter that costs much, and the facts that moved."""


class TuneWrongChoice(Document, WrongChoice, frozen=True):
    """The time of a problem's winner on each problem; null if it was not timed."""


class TunedVersion(Document, frozen=True):
    """A version's tuning: all of its trials, and the best of each problem.

    `steps` go from the runner-up to the winner, if both were profiled.
    """

    version: str
    device: str
    engine: str
    source_hash: str
    parameters: dict[str, list[Value]]
    default: Values
    requires: str
    strategy: str
    seed: int
    budget_s: float | None
    started: str
    stopped: str
    ended: str
    gpu_s: float | None
    saved: int
    fates: dict[str, int]
    winners: list[TuneWinner]
    trials: list[TuneTrial]
    effects: list[TuneEffects]
    cliffs: list[TuneCliff]
    wrong_choices: list[TuneWrongChoice]
    steps: list[StepDocument]


class TuneDocument(Document, frozen=True):
    """Versions that were tuned."""

    study: str
    tunings: list[TunedVersion]


SHAPES: Mapping[str, tuple[type[Document], ...]] = {"tune": (TuneDocument,)}
