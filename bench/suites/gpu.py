"""Suites for GPUs: products of matrices against cuBLAS, epilogues, unaligned convolutions, memory-bound operators."""
from .case import make_operators

ACTIVATIONS = [None, "Relu", "Gelu", "HardSwish", "Softplus"]
# m, n, k. BERT-base at batch 10 (Xing et al. 2022, fig. 1), at batch 1 and 16, TinyBERT, BERT-large at 8 x 512 tokens,
# squares, a tall one, a wide one, a long sum, products as in ALT's operators, and odd sizes.
GEMMS = [(1280, 768, 768), (1280, 3072, 768), (1280, 768, 3072), (128, 768, 768), (128, 3072, 768), (128, 768, 3072),
         (2048, 768, 768), (2048, 3072, 768), (2048, 1248, 312), (4096, 1024, 1024), (4096, 3072, 1024),
         (4096, 4096, 1024), (4096, 1024, 4096), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
         (4096, 4096, 4096), (8192, 8192, 8192), (16384, 64, 256), (32768, 128, 576), (256, 16384, 1024),
         (256, 256, 16384), (64, 1280, 3072), (1024, 512, 3072), (1000, 1000, 1000), (1023, 1025, 1027),
         (777, 333, 555), (4097, 513, 129), (100, 2000, 300), (3000, 100, 2050)]
# Table 3 of Xing et al. 2022: batch, sides, channels in and out, kernel, padding.
UNALIGNED = [(32, [20, 26], 46, 32, [3, 3], [1, 1]), (32, [20, 26], 46, 32, [5, 5], [2, 2]),
             (128, [14, 19], 46, 32, [5, 7], [0, 0]), (288, [11, 15], 46, 32, [5, 7], [0, 0]),
             (32, [20, 26], 174, 64, [3, 3], [1, 1]), (32, [20, 26], 174, 64, [5, 5], [2, 2])]
LARGE = [32768, 4096]  # 256 MiB in 16 bits, read and written again


def gemm30():
    return [{"name": f"gemm_{m}x{n}x{k}", "op": "matmul", "shape": [m, k], "n": n} for m, n, k in GEMMS]


def _with_activations(spec):
    """Without bias and activation, then with a bias and each activation."""
    for kind in ACTIVATIONS:
        name = f"{spec['name']}_{'plain' if kind is None else 'bias_' + kind.lower()}"
        yield dict(spec, name=name, bias=kind is not None, activation=kind)


def gemm_epilogues():
    return _with_activations({"name": "gemm_1280x3072x768", "op": "matmul", "shape": [1280, 768], "n": 3072})


def conv_epilogues():
    return _with_activations({"name": "conv_56_64_64", "op": "conv", "batch": 32, "cin": 64, "cout": 64,
                              "in": [56, 56], "kernel": [3, 3]})


def unaligned():
    for batch, sides, cin, cout, kernel, pad in UNALIGNED:
        name = f"conv_b{batch}_{sides[0]}x{sides[1]}_{cin}_{cout}_k{kernel[0]}x{kernel[1]}"
        yield {"name": name, "op": "conv", "batch": batch, "cin": cin, "cout": cout, "in": sides, "kernel": kernel,
               "pad": pad}


def memory():
    """The first one is the copy that the others are compared with."""
    yield {"name": "copy", "op": "elementwise", "kind": "Identity", "shape": LARGE}
    for kind in ("Relu", "HardSwish", "Add"):
        yield {"name": kind.lower(), "op": "elementwise", "kind": kind, "shape": LARGE}
    for kind in ("Softmax", "LayerNormalization", "ReduceSum"):
        for shape in ([131072, 1024], LARGE):
            yield {"name": f"{kind.lower()}_{shape[1]}", "op": "reduce", "kind": kind, "shape": shape, "axes": [-1]}
    yield {"name": "transpose_10", "op": "transpose", "shape": LARGE, "perm": [1, 0]}
    yield {"name": "transpose_0231", "op": "transpose", "shape": [32, 256, 128, 128], "perm": [0, 2, 3, 1]}


SPECS = {"gemm30": gemm30, "gemm-epilogues": gemm_epilogues, "conv-epilogues": conv_epilogues, "unaligned": unaligned,
         "memory": memory}


def cases(suite, options):
    specs = [dict(s, batch=s.get("batch", 1)) for s in SPECS[suite]()]
    return make_operators(specs, lambda spec: suite, options)
