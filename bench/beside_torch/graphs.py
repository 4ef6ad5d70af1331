"""Random torch modules: by a seed, of 4 to 9 parts, whose values later parts read again."""
import copy
import random

import torch
from torch import nn

from . import parts

MOST_ELEMENTS = 3000
LARGEST = 20.0  # of a value, so that f32 says something


class Embedded(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.table = nn.Embedding(words, size)

    def forward(self, ids):
        return self.table(ids)


class Graph(nn.Module):
    """steps: (part, numbers of the values that it reads); value 0 is the input. The last value is the output."""

    def __init__(self, steps):
        super().__init__()
        self.parts = nn.ModuleList(part for part, _ in steps)
        self._reads = [reads for _, reads in steps]

    def forward(self, x):
        values = [x]
        for part, reads in zip(self.parts, self._reads):
            values.append(part(*(values[k] for k in reads)))
        return values[-1]


def _input(draw):
    n = draw.choice([2, 3, 5])
    kind = draw.choice(["rows", "sequence", "words", "signal", "image", "image", "volume"])
    if kind == "words":
        return torch.randint(0, 7, (n, draw.choice([3, 5])))
    channels = draw.choice([1, 2, 3, 4, 6])
    inside = {"rows": [], "sequence": [draw.choice([4, 6, 9])], "signal": [draw.choice([7, 11])],
              "image": [draw.choice([5, 6, 7]), draw.choice([4, 7])], "volume": [3, draw.choice([4, 5]), 3]}[kind]
    return torch.randn(n, channels, *inside)


class Maker:
    def __init__(self, seed):
        self._draw = random.Random(seed)
        torch.manual_seed(seed)
        self.input = _input(self._draw)
        self._values, self._steps = [self.input], []

    def run(self):
        if self.input.dtype == torch.int64:
            self._append(Embedded(7, self._draw.choice([4, 6])), [0])
        for _ in range(self._draw.randint(4, 9)):
            self._grow()
        if self._values[-1].dim() >= 2 and self._draw.random() < 0.4:
            self._append(nn.Linear(self._values[-1].shape[-1], self._draw.choice([1, 2])), [len(self._values) - 1])
        if not copy.deepcopy(Graph(self._steps))(self.input).requires_grad:
            self._append(parts.with_parameter(self._draw, self._values[-1].shape), [len(self._values) - 1])
        return Graph(self._steps)

    def _grow(self):
        floats = [k for k, value in enumerate(self._values) if value.is_floating_point()]
        at = floats[-1] if self._draw.random() < 0.75 else self._draw.choice(floats)
        shape = self._values[at].shape
        alike = [k for k in floats if k != at and self._values[k].shape == shape]
        if alike and self._draw.random() < 0.4:
            self._append(parts.Function(self._draw.choice(parts.BINARY)), [at, self._draw.choice(alike)])
            return
        part = self._draw.choice(parts.FAMILIES)(self._draw, tuple(shape)) if len(shape) > 0 else None
        if part is not None:
            self._append(part, [at])

    def _append(self, part, reads):
        """Unless the result is empty or large."""
        try:
            with torch.no_grad():
                value = copy.deepcopy(part)(*(self._values[k] for k in reads))
        except (RuntimeError, ValueError):  # a shape that the part does not take
            return
        if not 0 < value.numel() <= MOST_ELEMENTS or not torch.isfinite(value).all():
            return
        self._values.append(value)
        self._steps.append((part, reads))
        largest = float(value.abs().max())
        if largest > LARGEST:
            shrink = 2.0 / largest
            self._values.append(value * shrink)
            self._steps.append((parts.Function(lambda x: x * shrink), [len(self._values) - 2]))


def make(seed, draw=0):
    """(module in training mode, its inputs by name); `draw` is the seed of the values of the inputs."""
    maker = Maker(seed)
    module, x = maker.run().train(), maker.input
    if draw and x.is_floating_point():
        x = torch.randn(x.shape, generator=torch.Generator().manual_seed(draw))
    return module, {"x": x}
