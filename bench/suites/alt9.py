"""ALT's nine operators (Xu et al. 2022, section 7.1) with ten random configurations each, drawn from the seed.

Batch 1 or 16, input channels from the paper's list, kernels, strides, dilations and sides as the operators have them
in networks. Configurations outside MAX_FLOP or MAX_ELEMENTS are drawn again: a case stays under a second.
"""
import math
import random

from .case import flop, make_operators

CONFIGURATIONS = 10
CHANNELS = [3, 16, 32, 64, 512, 960, 1280]
SIDES = {1: [64, 128, 256, 512], 2: [7, 14, 28, 56, 112], 3: [7, 14, 28]}
MIN_FLOP, MAX_FLOP, MAX_ELEMENTS = 1e6, 8e9, 1 << 25


def convolution(draw, rank, transposed=False):
    side = draw.choice(SIDES[rank])
    kernel = draw.choice([2, 3, 4] if transposed else [1, 3, 5] if rank < 3 else [1, 3, 3])
    stride = draw.choice([2] if transposed else [1, 1, 2])
    sides = [side] * rank if rank < 3 else [draw.choice([4, 8, 16]), side, side]
    return {"op": "conv", "batch": draw.choice([1, 16]), "cin": draw.choice(CHANNELS),
            "cout": draw.choice([16, 32, 64, 128, 256, 512]), "in": sides, "kernel": [kernel] * rank,
            "stride": [stride] * rank, "pad": [(kernel - 1) // 2] * rank, "transposed": transposed}


def grouped(draw):
    spec, group = convolution(draw, 2), draw.choice([2, 4, 8, 32])
    width = draw.choice([4, 8, 16, 32])
    return dict(spec, cin=group * width, cout=group * width, group=group)


def depthwise(draw):
    spec = convolution(draw, 2)
    channels, kernel = draw.choice(CHANNELS[1:]), draw.choice([3, 5])
    return dict(spec, cin=channels, cout=channels, group=channels, kernel=[kernel] * 2, pad=[kernel // 2] * 2)


def dilated(draw):
    spec, dilation = convolution(draw, 2), draw.choice([2, 4])
    return dict(spec, kernel=[3, 3], stride=[1, 1], dilation=[dilation] * 2, pad=[dilation] * 2)


def gmm(draw):
    m, k, n = (draw.choice([32, 64, 128, 256, 512, 768, 1024, 1280, 3072]) for _ in range(3))
    return {"op": "matmul", "shape": [m, k], "n": n}


OPERATORS = {
    "C2D": lambda draw: convolution(draw, 2), "GRP": grouped, "DEP": depthwise, "DIL": dilated,
    "C3D": lambda draw: convolution(draw, 3), "C1D": lambda draw: convolution(draw, 1), "GMM": gmm,
    "T2D": lambda draw: convolution(draw, 2, True), "T3D": lambda draw: convolution(draw, 3, True)}


def elements(spec):
    if spec["op"] == "matmul":
        return spec["shape"][0] * max(spec["n"], spec["shape"][1])
    grown = math.prod(spec["stride"]) if spec.get("transposed") else 1
    return spec["batch"] * math.prod(spec["in"]) * max(spec["cin"], spec["cout"] * grown)


def fits(spec):
    extents = [d * (k - 1) + 1 for d, k in zip(spec.get("dilation", [1] * 3), spec.get("kernel", []))]
    inside = all(e <= s + 2 * p for e, s, p in zip(extents, spec.get("in", []), spec.get("pad", [])))
    return inside and MIN_FLOP <= flop(spec) <= MAX_FLOP and elements(spec) <= MAX_ELEMENTS


def specs(seed):
    for name, operator in OPERATORS.items():
        draw, drawn = random.Random(f"{seed} {name}"), []
        while len(drawn) < CONFIGURATIONS:
            spec = operator(draw)
            if fits(spec) and spec not in drawn:
                drawn.append(spec)
        yield from (dict(s, name=f"{name}_{i}") for i, s in enumerate(drawn))


def cases(suite, options):
    del suite
    return make_operators(list(specs(options.seed)), lambda s: s["name"].split("_")[0], options)
