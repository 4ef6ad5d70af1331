"""Suites of single operators: ten GEMMs, 3x3 convolutions at 56 to 14 pixels, the depthwise layers of MobileNet-V2,
thirty drawn contractions."""
import random
import sys

from .case import ROOT, make_operators

sys.path.insert(0, str(ROOT / "scripts"))
from models import convnets  # noqa: E402

GEMMS = [(512, 512, 512), (1024, 1024, 1024), (1536, 1536, 1536), (2048, 2048, 2048), (128, 768, 768),
         (128, 3072, 768), (128, 768, 3072), (1280, 768, 768), (1280, 3072, 768), (1280, 768, 3072)]  # m, n, k
CONVS = [(64, 56), (128, 28), (256, 14)]  # channels, side


def gemm10():
    return [{"name": f"gemm_{m}x{n}x{k}", "op": "matmul", "shape": [m, k], "n": n} for m, n, k in GEMMS]


def conv3x3():
    """Alone, from and to NCHW; and four in a row with ReLU, as networks have them: layouts pay their way there."""
    for channels, side in CONVS:
        base = {"op": "conv", "batch": 1, "cin": channels, "cout": channels, "in": [side, side], "kernel": [3, 3]}
        yield dict(base, name=f"conv3x3_{channels}_{side}")
        yield dict(base, name=f"conv3x3_{channels}_{side}_x4", activation="Relu", repeat=4)


def depthwise():
    """The distinct depthwise layers of MobileNet-V2 in their order; those of stride 1 also four in a row with ReLU."""
    channels, side, seen = 32, 112, set()
    for expansion, cout, count, first in convnets.MOBILENET_V2:
        for index in range(count):
            hidden, stride = channels * expansion, first if index == 0 else 1
            if (hidden, side, stride) not in seen:
                seen.add((hidden, side, stride))
                spec = {"name": f"depthwise_{hidden}_{side}_s{stride}", "op": "conv", "batch": 1, "cin": hidden,
                        "cout": hidden, "group": hidden, "in": [side, side], "kernel": [3, 3], "stride": [stride] * 2}
                yield from [spec] + [dict(spec, name=spec["name"] + "_x4", activation="Relu", repeat=4)] * (stride == 1)
            channels, side = cout, side // stride


def choice30(seed):
    """Ten GEMMs, ten 1x1 and ten larger strided or grouped convolutions, drawn from the seed: direct contractions."""
    draw = random.Random(f"{seed} choice")
    for i in range(10):
        m, k, n = (draw.choice([32, 64, 128, 256, 384, 512, 768, 1024, 1536]) for _ in range(3))
        yield {"name": f"choice_gemm_{i}", "op": "matmul", "shape": [m, k], "n": n}
    for i in range(20):
        side, kernel = draw.choice([7, 14, 28, 56]), 1 if i < 10 else draw.choice([3, 5])
        group = 1 if i < 10 else draw.choice([1, 1, 2, 4])
        channels = [draw.choice([32, 64, 128, 256, 512]) for _ in range(2)]
        yield {"name": f"choice_conv_{i}", "op": "conv", "batch": 1, "cin": channels[0], "cout": channels[1],
               "in": [side, side], "kernel": [kernel] * 2, "stride": [1 if i < 10 else 2] * 2, "group": group,
               "pad": [kernel // 2] * 2}


def cases(suite, options):
    specs = {"gemm10": gemm10, "conv3x3": conv3x3, "depthwise": depthwise,
             "choice30": lambda: choice30(options.seed)}[suite]()
    return make_operators([dict(s, batch=s.get("batch", 1)) for s in specs], lambda spec: suite, options)
