"""Stand-ins for the native reader's objects, with only what the extraction asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Valued:
    """Values by their kind, as ``IMetric`` gives them; a broken one has none."""

    ValueKind_UNKNOWN, ValueKind_STRING, ValueKind_FLOAT = 0, 2, 3
    ValueKind_DOUBLE, ValueKind_UINT32, ValueKind_UINT64 = 4, 5, 6

    value: Any

    def kind(self, i: int) -> int:
        kinds = {int: self.ValueKind_UINT64, float: self.ValueKind_DOUBLE}
        return kinds.get(type(self.value(i)), self.ValueKind_UNKNOWN)

    def as_uint64(self, i: int) -> int:
        value = self.value(i)
        return value if isinstance(value, int) else 0

    def as_double(self, i: int) -> float:
        value = self.value(i)
        return value if isinstance(value, float) else 0.0


class Ids(Valued):
    def __init__(self, ids: list[Any]) -> None:
        self._ids = ids

    def num_instances(self) -> int:
        return len(self._ids)

    def value(self, i: int | None = None) -> Any:
        return self._ids[i or 0]


class FakeMetric(Valued):
    def __init__(self, value: Any, unit: str = "", instances: dict[Any, Any] | None = None) -> None:
        self._value, self._unit, self._instances = value, unit, instances

    def value(self, i: int | None = None) -> Any:
        return self._value if i is None else list((self._instances or {}).values())[i]

    def unit(self) -> str:
        return self._unit

    def has_correlation_ids(self) -> bool:
        return self._instances is not None

    def num_instances(self) -> int:
        return len(self._instances or {})

    def correlation_ids(self) -> Ids:
        return Ids(list(self._instances or {}))


class Broken(FakeMetric):
    def __init__(self) -> None:
        super().__init__(0)

    def value(self, i: int | None = None) -> Any:
        raise RuntimeError("bad variant access")


class Info:
    def __init__(self, file: str, line: int) -> None:
        self._file, self._line = file, line

    def file_name(self) -> str:
        return self._file

    def line(self) -> int:
        return self._line


class FakeAction:
    """One launch: metrics by name, code as {PC: (SASS, (file, line) or None)}."""

    WorkloadType_KERNEL, WorkloadType_RANGE = 0, 1
    WorkloadType_CMDLIST, WorkloadType_GRAPH = 2, 3
    NameBase_DEMANGLED, NameBase_MANGLED = 1, 2

    def __init__(
        self,
        metrics: Mapping[str, FakeMetric | None],
        code: Mapping[int, tuple[str, tuple[str, int] | None]] | None = None,
        name: str = "kernel",
        workload: int = 0,
        rules: list[dict[str, Any]] | None = None,
    ) -> None:
        self._metrics, self._code, self._name = metrics, code or {}, name
        self._workload, self._rules = workload, rules or []

    def name(self, base: int = 0) -> str:
        return f"{self._name}(int)" if base and self._name else self._name

    def workload_type(self) -> int:
        return self._workload

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self._metrics)

    def metric_by_name(self, name: str) -> FakeMetric | None:
        return self._metrics.get(name)

    def sass_by_pc(self, pc: int) -> str:
        return self._code[pc][0] if pc in self._code else ""

    def ptx_by_pc(self, pc: int) -> str:
        return ""

    def source_info(self, pc: int) -> Info | None:
        found = self._code.get(pc, ("", None))[1]
        return Info(*found) if found else None

    def source_files(self) -> dict[str, str]:
        return {"a.cu": "int x;\n"}

    def nvtx_state(self) -> Any:
        return None

    def rule_results(self) -> list[FakeRule]:
        return [FakeRule(raw) for raw in self._rules]


class FakeRule:
    """A rule result; a key that is missing makes its accessor fail."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw

    def rule_identifier(self) -> Any:
        return self._raw["rule_identifier"]

    def section_identifier(self) -> Any:
        return self._raw["section_identifier"]

    def name(self) -> Any:
        return self._raw["name"]

    def rule_message(self) -> Any:
        return self._raw["rule_message"]

    def focus_metrics(self) -> Any:
        return self._raw.get("focus_metrics", [])

    def has_speedup_estimation(self) -> bool:
        return "speedup_estimation" in self._raw

    def speedup_estimation(self) -> Any:
        return self._raw["speedup_estimation"]
