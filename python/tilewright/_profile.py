"""Times of the steps of a run."""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """name: the ONNX nodes that the step computes."""

    name: str
    microseconds: float


class Profile:
    """steps: those of the last run within the block of Model.profile(), in their order. runs: those of all."""

    def __init__(self) -> None:
        self.runs: list[tuple[Step, ...]] = []

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.runs[-1] if self.runs else ()

    @property
    def microseconds(self) -> float:
        """All steps of the last run together."""
        return sum(step.microseconds for step in self.steps)

    def add(self, steps: Sequence[tuple[str, int]]) -> None:
        self.runs.append(tuple(Step(name, nanoseconds / 1e3) for name, nanoseconds in steps))

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes all runs as a file that Perfetto and chrome://tracing open: one event a step, one after the other."""
        events: list[dict[str, object]] = []
        start = 0.0
        for number, run in enumerate(self.runs):
            for step in run:
                events.append({"name": step.name, "cat": "step", "ph": "X", "ts": round(start, 3),
                               "dur": round(step.microseconds, 3), "pid": 0, "tid": 0, "args": {"run": number}})
                start += step.microseconds
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)
