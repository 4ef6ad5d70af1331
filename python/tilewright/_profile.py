"""Times of the steps of a run."""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


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

    def _events(self, category: str, suffix: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        start = 0.0
        for number, run in enumerate(self.runs):
            for step in run:
                events.append({"name": step.name + suffix, "cat": category, "ph": "X", "ts": round(start, 3),
                               "dur": round(step.microseconds, 3), "pid": 0, "tid": 0, "args": {"run": number}})
                start += step.microseconds
        return events

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes all runs as a file that Perfetto and chrome://tracing open: one event a step, one after the other."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": self._events("step", ""), "displayTimeUnit": "ns"}, file)

    def to_node_events(self, path: str | os.PathLike[str]) -> None:
        """The same as onnxruntime writes it: a list of events of the category "Node", with args.op_name."""
        events = self._events("Node", "_kernel_time")
        for event in events:
            event["args"].update(op_name=event["name"].removesuffix("_kernel_time"), provider="Tilewright")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(events, file)
