"""Propose the next choice: all of a small space, or samples of Optuna.

Optuna (extra ``tune``) is imported if a space is too large to be tried whole. Its study is in
memory only: it gets results of earlier runs again, from our own record.
"""

from __future__ import annotations

import importlib
import itertools
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from workbench.errors import MissingError
from workbench.ladder.tunings import Value, Values, key_of
from workbench.tune.space import Space

#: Repeated or invalid proposals in a row before choices are drawn at random.
_VAIN = 20
#: The largest space whose choices may all be listed.
_LISTED = 1 << 16


class Everything:
    """All choices, in a given order, each once."""

    name = "all"

    def __init__(self, choices: Sequence[Values]) -> None:
        self._left = iter(choices)

    def ask(self, most: int) -> list[Values]:
        """The next choices, at most `most`; empty: there are no more."""
        return list(itertools.islice(self._left, most))

    def tell(self, values: Values, seconds: float | None) -> None:
        """Ignore the time of a choice: the order does not depend on it."""


class Sampled:
    """Optuna's tree-structured Parzen estimator, over the indices of values in their lists.

    A sorted list of numbers is an axis, on which near values inform each other; any other list is a
    set of words. It models the logarithm of the time. Before its samples it proposes
    `first`, then the choices that differ from the best in one value: samples come near a best
    choice, but seldom hit it. Raises MissingError: Optuna is not installed.
    """

    name = "optuna-tpe"

    def __init__(self, space: Space, seed: int, first: Iterable[Values] = ()) -> None:
        optuna = _optuna()
        self._space = space
        self._known: set[str] = set()
        self._best: tuple[float, Values] | None = None
        self._chance = random.Random(seed)
        self._open: dict[str, Any] = {}
        self._distributions: dict[str, Any] = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1)
            if _ordered(values)
            else optuna.distributions.CategoricalDistribution(list(range(len(values))))
            for name, values in space.parameters.items()
        }
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        self._study = optuna.create_study(sampler=sampler)
        for values in first:
            self._study.enqueue_trial(self._places(values))

    def _places(self, values: Values) -> dict[str, int]:
        return {
            name: [repr(each) for each in every].index(repr(values[name]))
            for name, every in self._space.parameters.items()
        }

    def ask(self, most: int) -> list[Values]:
        """The next choices, each once, at most `most`; empty: there are no more."""
        optuna = _optuna()
        for values in self._beside()[:most]:
            self._study.enqueue_trial(self._places(values), skip_if_exists=True)
        found: list[Values] = []
        vain = 0
        while len(found) < most and vain < _VAIN:
            trial = self._study.ask(self._distributions)
            values = {
                name: every[trial.params[name]] for name, every in self._space.parameters.items()
            }
            if key_of(values) in self._known or not self._space.holds(values):
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
                vain += 1
                continue
            self._known.add(key_of(values))
            self._open[key_of(values)] = trial
            found.append(values)
        if len(found) < most:
            found += self._others(most - len(found))
        return found

    def _beside(self) -> list[Values]:
        """Untried choices that differ from the best in one value, in random order."""
        if self._best is None:
            return []
        best = self._best[1]
        every = [
            {**best, name: value}
            for name, values in self._space.parameters.items()
            for value in values
        ]
        found = [x for x in every if key_of(x) not in self._known and self._space.holds(x)]
        self._chance.shuffle(found)
        return found

    def _others(self, most: int) -> list[Values]:
        """Random choices, if the sampler repeats known ones."""
        space, draw = self._space, self._chance
        if space.size <= _LISTED:
            every = list(space.every())
            draw.shuffle(every)
        else:
            names = space.parameters.items()
            drawn = ({n: draw.choice(each) for n, each in names} for _ in range(_VAIN * most))
            every = [values for values in drawn if space.holds(values)]
        found: list[Values] = []
        for values in every:
            if len(found) < most and key_of(values) not in self._known:
                self._known.add(key_of(values))
                found.append(values)
        return found

    def tell(self, values: Values, seconds: float | None) -> None:
        """Report the time of a choice, even of one that it has not proposed; None: no time."""
        optuna = _optuna()
        key = key_of(values)
        self._known.add(key)
        if seconds is not None and (self._best is None or seconds < self._best[0]):
            self._best = seconds, values
        state = optuna.trial.TrialState.FAIL if seconds is None else None
        score = None if seconds is None else math.log(seconds)
        if (trial := self._open.pop(key, None)) is not None:
            self._study.tell(trial, score, state=state)
        elif seconds is not None:
            self._study.add_trial(
                optuna.trial.create_trial(
                    params=self._places(values), distributions=self._distributions, value=score
                )
            )


Search = Everything | Sampled


def _ordered(values: tuple[Value, ...]) -> bool:
    numbers = [each for each in values if type(each) in (int, float)]
    return len(numbers) == len(values) > 1 and numbers in (
        sorted(numbers),
        sorted(numbers, reverse=True),
    )


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ImportError as error:
        raise MissingError(
            "this space is too large to try every choice, and Optuna is not installed",
            "Install Optuna: `pip install 'workbench[tune]'`; or give a larger --budget, "
            "or fewer values in [tune].",
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
