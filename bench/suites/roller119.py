"""Operator shapes drawn from the networks' own layers (Zhu et al. 2022 took 119), at batch 16, without repetition.

The networks of scripts/make_models.py are walked with inferred shapes; a family's shapes are drawn from the seed.
"""
import math
import random

import onnx
from onnx import helper, shape_inference

from .case import flop, make_models, make_operators

BATCH, MAX_FLOP = 16, 1.6e10  # larger operators get a smaller batch
NETWORKS = ["resnet18", "resnet50", "mobilenet_v2", "vgg16", "repvgg_a0", "resnet3d_18", "bert_base", "tinybert"]
# How many of each family, where the networks have as many; at least LEAST in all.
FAMILIES = {"conv": 44, "matmul": 24, "depthwise": 10, "elementwise": 26, "pool": 8, "reduction": 14}
LEAST = 119


def shapes_of(model):
    inferred = shape_inference.infer_shapes(model).graph
    values = [*inferred.input, *inferred.value_info, *inferred.output]
    known = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    known.update({t.name: list(t.dims) for t in inferred.initializer})
    return known


def convolution(node, a, shapes):
    """Exporters leave out attributes that have their default, or that the shape of the weights says."""
    x, w, group = shapes[node.input[0]], shapes[node.input[1]], a.get("group", 1)
    rank = len(w) - 2
    spec = {"op": "conv", "batch": BATCH, "cin": x[1], "cout": w[0], "in": x[2:], "kernel": w[2:],
            "stride": a.get("strides", [1] * rank), "pad": a.get("pads", [0] * rank)[:rank], "group": group}
    return ("depthwise" if group == x[1] else "conv"), spec


def matmul(node, a, shapes):
    x, w = shapes[node.input[0]], shapes[node.input[1]]
    transposed = bool(a.get("transB"))
    n = w[0] if transposed else w[-1]
    return "matmul", {"op": "matmul" if len(w) == 2 else "batch_matmul", "shape": [BATCH * x[0], *x[1:]], "n": n}


def elementwise(node, a, shapes):
    both = [shapes.get(name) for name in node.input]
    if len(both) == 2 and both[0] != both[1]:
        return None
    kind = {"Clip": "Relu"}.get(node.op_type, node.op_type)
    return "elementwise", {"op": "elementwise", "kind": kind, "shape": [BATCH * both[0][0], *both[0][1:]]}


def pool(node, a, shapes):
    x = shapes[node.input[0]]
    if node.op_type == "GlobalAveragePool":
        return "reduction", {"op": "reduce", "kind": "ReduceMean", "shape": [BATCH, *x[1:]],
                             "axes": list(range(2, len(x)))}
    spec = {"op": "pool", "kind": node.op_type, "shape": [BATCH, *x[1:]], "kernel": a["kernel_shape"],
            "stride": a["strides"], "pad": a.get("pads", [0, 0])[:2]}
    return ("pool", spec) if math.prod(a["kernel_shape"]) > 1 else None


def reduction(node, a, shapes):
    x = shapes[node.input[0]]
    axes = a.get("axes", [a.get("axis", -1)])
    return "reduction", {"op": "reduce", "kind": node.op_type, "shape": [BATCH * x[0], *x[1:]], "axes": axes}


WALKED = {"Conv": convolution, "MatMul": matmul, "Gemm": matmul, "Relu": elementwise, "Add": elementwise,
          "Erf": elementwise, "Mul": elementwise, "Clip": lambda n, a, s: None, "MaxPool": pool, "AveragePool": pool,
          "GlobalAveragePool": pool, "ReduceMean": reduction, "Softmax": reduction}


def shrunk(spec):
    """The specification with the largest batch of at most 16 that keeps MAX_FLOP."""
    while spec.get("batch", 0) > 1 and flop(spec) > MAX_FLOP:
        spec = dict(spec, batch=spec["batch"] // 2)
    return spec


def extra():
    """Variants that the networks compute in other words: sums over the same tensors, means over rows, norms."""
    for shape in ([BATCH, 128, 768], [BATCH, 128, 312], [BATCH, 197, 768]):
        yield "reduction", {"op": "reduce", "kind": "LayerNormalization", "shape": shape, "axes": [-1]}
        yield "reduction", {"op": "reduce", "kind": "ReduceSum", "shape": shape, "axes": [-1]}
    for side, channels in ((112, 64), (56, 128), (28, 256), (14, 512)):
        shape = [BATCH, channels, side, side]
        yield "pool", {"op": "pool", "kind": "AveragePool", "shape": shape, "kernel": [2, 2], "stride": [2, 2],
                       "pad": [0, 0]}
        yield "pool", {"op": "pool", "kind": "MaxPool", "shape": shape, "kernel": [3, 3], "stride": [2, 2],
                       "pad": [1, 1]}


def families(folder, seed):
    """{family: its distinct shapes, in the order of the networks}."""
    make_models(folder, ["--only", *NETWORKS, "--seed", seed])
    found = {family: [] for family in FAMILIES}
    for name in NETWORKS:
        model = onnx.load(folder / f"{name}.onnx")
        shapes = shapes_of(model)
        for node in model.graph.node:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            add(found, WALKED.get(node.op_type, lambda *_: None)(node, attributes, shapes))
    for entry in extra():
        add(found, entry)
    return found


def add(found, entry):
    if entry and shrunk(entry[1]) not in found[entry[0]]:
        found[entry[0]].append(shrunk(entry[1]))


def label(family, spec):
    if "cin" in spec:
        sides = "x".join(map(str, spec["in"]))
        return f"{family}_{spec['cin']}_{spec['cout']}_{sides}_k{max(spec['kernel'])}_s{max(spec['stride'])}"
    parts = [*spec["shape"], *([spec["n"]] if "n" in spec else [f"k{spec['kernel'][0]}"] if "kernel" in spec else [])]
    axes = "".join(f"a{a}" for a in spec.get("axes", []))
    kind = spec.get("kind", "batch" if spec["op"] == "batch_matmul" else "")
    return f"{family}_{kind}{'_' * bool(kind)}{'x'.join(map(str, parts))}{axes}".replace("-", "m")


def specs(folder, seed):
    pools, draw = families(folder, seed), random.Random(seed)
    for pool_ in pools.values():
        draw.shuffle(pool_)
    chosen = {family: pool_[:FAMILIES[family]] for family, pool_ in pools.items()}
    spare = [(family, spec) for family, pool_ in pools.items() for spec in pool_[FAMILIES[family]:]]
    while sum(map(len, chosen.values())) < LEAST and spare:
        family, spec = spare.pop(0)
        chosen[family].append(spec)
    for family, list_ in chosen.items():
        yield from (dict(spec, name=label(family, spec), batch=spec.get("batch", BATCH)) for spec in list_)


def cases(suite, options):
    del suite
    folder = options.folder / f"seed{options.seed}"
    return make_operators(list(specs(folder, options.seed)), lambda s: s["name"].split("_")[0], options)
