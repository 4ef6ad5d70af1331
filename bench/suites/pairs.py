"""Products and convolutions that read what the one before them gives: Bolt's ten pairs (Xing et al. 2022, tables 1 and 2)
and two chains of three, each with bias and ReLU behind every stage.

One kernel for all stages moves the input, the weights and the last result only: its floor is printed beside the figures
(harness/floors.py). Tilewright runs twice, as users have it and as `tilewright:apart`, which fuses no chains.
"""
from .case import make_operators

# Rows, then the widths: of the input and of what each product gives.
GEMMS = [(2464, [4, 1, 4]), (16384, [256, 64, 16]), (32768, [576, 128, 64]), (128320, [96, 32, 96]),
         (16384, [256, 64, 64, 16])]
# Sides, channels in and out, stride, stages: a 3x3 convolution, then 1x1 ones that keep the channels.
CONVS = [(224, 3, 48, 2, 2), (112, 48, 48, 2, 2), (56, 48, 48, 1, 2), (224, 3, 64, 2, 2), (112, 64, 64, 2, 2),
         (56, 64, 64, 1, 2), (56, 64, 64, 1, 3)]
BATCH = 32


def gemm(rows, widths, is_small):
    first, *others = widths
    stages = [{"op": "matmul", "n": n} for n in others]
    stages[0]["shape"] = [rows // 77 if is_small else rows, first]
    return {"name": f"gemm_{rows}_" + "_".join(map(str, widths)), "op": "chain", "stages": stages}


def conv(side, cin, cout, stride, count, is_small):
    sides = [side // 7 if is_small else side] * 2
    stages = [{"op": "conv", "cin": cin, "in": sides, "cout": cout, "kernel": [3, 3], "stride": [stride] * 2}]
    stages += [{"op": "conv", "cout": cout, "kernel": [1, 1]}] * (count - 1)
    name = f"conv_{side}_{cin}_{cout}_s{stride}" + f"_x{count}" * (count > 2)
    return {"name": name, "op": "chain", "batch": 2 if is_small else BATCH, "stages": stages}


def specs(is_small=False):
    found = [dict(gemm(*sizes, is_small), batch=1) for sizes in GEMMS] + [conv(*sizes, is_small) for sizes in CONVS]
    return [dict(spec, name=spec["name"] + "_small" * is_small) for spec in found]


def cases(suite, options):
    del suite
    return make_operators(specs(options.small), lambda spec: spec["name"].split("_")[0], options)
