"""Typed values out of a front matter's TOML table; every complaint names its line."""

from __future__ import annotations

from typing import NoReturn

from workbench.errors import UsageError
from workbench.nearest import did_you_mean
from workbench.study.tomllines import key_lines


class Reader:
    """Takes typed values out of the TOML table; every complaint names its line."""

    def __init__(self, path: str, toml: str, first: int, opened: int) -> None:
        self.path = path
        self.lines = {key: line + first - 1 for key, line in key_lines(toml).items()}
        self.opened = opened

    def line(self, key: str) -> int:
        """The line of a key, of the nearest table around it, or of the front matter."""
        while key not in self.lines and "." in key:
            key = key.rpartition(".")[0]
        return self.lines.get(key, self.opened)

    def fail(self, key: str, what: str, hint: str) -> NoReturn:
        """Raise the UsageError for the key's line."""
        raise UsageError(f"{self.path}:{self.line(key)}: {what}", hint)

    def check_keys(self, table: dict[str, object], known: tuple[str, ...], prefix: str) -> None:
        """Refuse a key that is not known, naming the nearest one that is."""
        for key in table:
            if key not in known:
                inside = f" in [[{prefix.partition('[')[0]}]]" if prefix else ""
                self.fail(
                    f"{prefix}{key}",
                    f"unknown key `{key}`{inside}",
                    did_you_mean(key, known, "keys"),
                )

    def string(self, table: dict[str, object], key: str, prefix: str = "") -> str:
        """An optional string, stripped; empty where the key is absent."""
        value = table.get(key, "")
        if not isinstance(value, str):
            self.fail(
                prefix + key, f"`{key}` must be a string, not {value!r}", f'Write {key} = "…".'
            )
        return value.strip()

    def required(self, table: dict[str, object], key: str, prefix: str = "") -> str:
        """A string that must be there and not be blank."""
        value = self.string(table, key, prefix)
        if not value:
            inside = f" in [[{prefix.partition('[')[0]}]]" if prefix else ""
            self.fail(prefix + key, f"`{key}` is missing{inside}", f'Add {key} = "…".')
        return value

    def fraction(self, table: dict[str, object], key: str) -> float | None:
        """An optional number between 0 and 1, both excluded; None where the key is absent."""
        value = table.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            self.fail(
                key,
                f"`{key}` must be a number between 0 and 1, not {value!r}",
                f"Write {key} = 1e-3.",
            )
        return float(value)

    def flag(self, table: dict[str, object], key: str) -> bool:
        """An optional boolean, false where the key is absent."""
        value = table.get(key, False)
        if not isinstance(value, bool):
            self.fail(key, f"`{key}` must be true or false, not {value!r}", f"Write {key} = true.")
        return value

    def strings(self, table: dict[str, object], key: str) -> tuple[str, ...]:
        """An optional list of strings."""
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.fail(
                key, f"`{key}` must be a list of strings, not {value!r}", f'Write {key} = ["…"].'
            )
        return tuple(value)

    def tables(self, table: dict[str, object], key: str) -> list[dict[str, object]]:
        """The tables of an array ``[[key]]``."""
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.fail(
                key, f"`{key}` must be a list of tables", f"Write [[{key}]], with two brackets."
            )
        return value

    def expressions(
        self,
        table: dict[str, object],
        key: str,
        prefix: str,
        most: int | None,
        floats: bool = False,
    ) -> tuple[str, ...]:
        """A list of expressions (or one alone), at most `most` long, as text."""
        value = table.get(key, [])
        values = value if isinstance(value, list) else [value]
        for each in values:
            plain = isinstance(each, str | int) and not isinstance(each, bool)
            if not (plain or (floats and isinstance(each, float))):
                kinds = "strings or numbers" if floats else "integers or expressions"
                self.fail(
                    prefix + key,
                    f"`{key}` must hold {kinds}, not {each!r}",
                    f'Write {key} = ["cdiv(N, 64)", 1], in strings what is no plain number.',
                )
        if most is not None and len(values) > most:
            self.fail(
                prefix + key,
                f"`{key}` has {len(values)} dimensions",
                f"A launch has at most {most}: x, y, z.",
            )
        return tuple(str(each).strip() for each in values)
