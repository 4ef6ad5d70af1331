"""The projections of queries, keys and values alone, in the three cases of the paper's table II."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .rows import PROJECTIONS

# Which of them are columns of one weight. What is apart here stays apart.
CASES = {"unfused": (["q"], ["k"], ["v"]), "QK fused": (["q", "k"], ["v"]), "QKV fused": (["q", "k", "v"],)}


def _weights(sizes, parts, random):
    """(name, weight) of each part."""
    for part in parts:
        weight = random.standard_normal((sizes.width, sizes.width * len(part))).astype(np.float32)
        yield "".join(part), weight * np.float32(sizes.width**-0.5)


def _model(nodes, inputs, outputs, tensors):
    def infos(shapes):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "projections", infos(inputs), infos(outputs),
                              [numpy_helper.from_array(a, name) for name, a in tensors.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def forward(sizes, parts, seed=0):
    """x times each weight."""
    weights, tokens = dict(_weights(sizes, parts, np.random.default_rng(seed))), sizes.batch * sizes.tokens
    nodes = [helper.make_node("MatMul", ["x", f"{name}.weight"], [name], name=name) for name in weights]
    return _model(nodes, {"x": [tokens, sizes.width]}, {name: [tokens, w.shape[1]] for name, w in weights.items()},
                  {f"{name}.weight": w for name, w in weights.items()})


def training(sizes, parts, seed=0):
    """The same of a parameter x; the loss is the sum of products with inputs, so that these are the gradients."""
    random, tokens = np.random.default_rng(seed), sizes.batch * sizes.tokens
    tensors, nodes, inputs = {"x": random.standard_normal((tokens, sizes.width)).astype(np.float32)}, [], {}
    for name, weight in _weights(sizes, parts, random):
        tensors[f"{name}.weight"], inputs[f"d{name}"] = weight, [tokens, weight.shape[1]]
        nodes += [helper.make_node("MatMul", ["x", f"{name}.weight"], [name], name=name),
                  helper.make_node("Mul", [name, f"d{name}"], [f"loss_{name}.product"], name=f"loss_{name}.product"),
                  helper.make_node("ReduceSum", [f"loss_{name}.product"], [f"loss_{name}"], name=f"loss_{name}", keepdims=0)]
    nodes.append(helper.make_node("Sum", [n.output[0] for n in nodes if n.op_type == "ReduceSum"], ["loss"], name="loss"))
    return _model(nodes, inputs, {"loss": []}, tensors)


def _time_of_products(flow, is_backward):
    """Microseconds of the groups that hold products of one pass."""
    def holds(group):
        own = flow.operators[group["first_operator"]:group["first_operator"] + group["operators"]]
        return any(o["class"] == "contraction" and (".grad" in o["name"]) == is_backward for o in own)
    return sum(g["time_us"] or 0 for g in flow.groups if holds(g))


def times(command, sizes, case):
    """Microseconds of the products: (forward, backward)."""
    name, apart = case.replace(" ", "_"), ["--disable-pass", "merge-products"]
    compiled = command.compile(command.save(forward(sizes, CASES[case]), f"{name}_forward"), *apart)
    trained = command.train(command.save(training(sizes, CASES[case]), name), *apart)
    return (_time_of_products(command.timed(compiled), False), _time_of_products(command.timed(trained, "grads"), True))


def markdown(found):
    lines = ["| us | forward, paper on a V100 | ours | backward, paper | ours |", "|---|---|---|---|---|"]
    for case, (before, after) in found.items():
        paper = PROJECTIONS[case]
        lines.append(f"| {case} | {paper[0]} | {before:.0f} | {paper[1]} | {after:.0f} |")
    return "\n".join(lines)
