"""Models for torch: a module by its specification (suites/torch_modules.py), or an ONNX graph as a torch.fx graph."""
import operator

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

from . import onnx_folding


def load(job, feeds):
    """(module, inputs) of a job. Where it has a specification, "torch", that module. With "fold" batch norms of an ONNX graph
    are folded beforehand."""
    inputs = [torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in feeds]
    if job.get("torch"):
        from suites import torch_modules
        return torch_modules.build(job["torch"]), inputs
    return convert(job["model"], list(feeds), job.get("dtype", "f32"), job.get("fold", False)), inputs


def convert(path, input_names, dtype="f32", fold=False):
    """The graph's module; its inputs in the order of input_names. Operators without a row below raise KeyError. Where the
    graph casts to floats, they are of `dtype`."""
    model = onnx_folding.fold_constants(onnx.load(path))
    graph = (onnx_folding.fold_batch_norms(model) if fold else model).graph
    root, fx = torch.nn.Module(), torch.fx.Graph()
    values, constants = {name: fx.placeholder(name) for name in input_names}, {}
    for tensor in graph.initializer:
        constants[tensor.name] = np.array(numpy_helper.to_array(tensor))

    def value(name):
        """The node of a value; constants become buffers when first used."""
        if name not in values and name in constants:
            key = f"c{len(values)}"
            root.register_buffer(key, torch.from_numpy(np.ascontiguousarray(constants[name]).copy()))
            values[name] = fx.get_attr(key)
        return values[name] if name else None
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = ROWS[node.op_type](Context(fx, node, attributes, value, constants, dtype))
    transposed = {node.output[0] for node in graph.node if node.op_type == "Transpose"}
    # A view of the operand, which has moved nothing yet.
    moved = {name: fx.call_method("contiguous", (values[name],)) for name in transposed & {o.name for o in graph.output}}
    fx.output(tuple(moved.get(o.name, values[o.name]) for o in graph.output))
    return torch.fx.GraphModule(root, fx)


class Context:
    """One ONNX node under conversion: c(i) its i-th input, c.const(i) the same as numpy, c.call(function, ...)."""

    def __init__(self, fx, node, attributes, value, constants, dtype):
        self.fx, self.node, self.a, self.value, self.constants = fx, node, attributes, value, constants
        self.dtype = {"f32": torch.float32, "f16": torch.float16}[dtype]

    def __call__(self, index):
        return self.value(self.node.input[index]) if index < len(self.node.input) else None

    def const(self, index, default=None):
        names = self.node.input
        return self.constants[names[index]] if index < len(names) and names[index] else default

    def call(self, function, *arguments, **named):
        return self.fx.call_function(function, arguments, named)


def transpose(c):
    """In two steps where the last two dims change places at the end: Inductor takes keys of attention for those only, and
    others for such, wrongly (torch 2.11, fuse_attention.py)."""
    order = tuple(c.a["perm"])
    if len(order) < 3 or order[-2] != len(order) - 1:
        return c.call(torch.permute, c(0), order)
    whole = c.call(torch.permute, c(0), (*order[:-2], order[-1], order[-2]))
    return c.call(torch.transpose, whole, -2, -1)


def halved_pads(c):
    """(symmetric padding, input padded beforehand where it is not symmetric)."""
    pads, rank = c.a.get("pads", []), len(c.a.get("pads", [])) // 2
    before, after = pads[:rank], pads[rank:]
    if before == after:
        return tuple(before), c(0)
    both = [p for pair in reversed(list(zip(before, after))) for p in pair]
    return (0,) * rank, c.call(F.pad, c(0), both)


def conv(c):
    rank = len(c.a["kernel_shape"])
    padding, x = halved_pads(c)
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    return c.call(function, x, c(1), c(2), tuple(c.a.get("strides", [1] * rank)), padding or 0,
                  tuple(c.a.get("dilations", [1] * rank)), c.a.get("group", 1))


def conv_transpose(c):
    rank = len(c.a["kernel_shape"])
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[rank]
    pads = c.a.get("pads", [0] * 2 * rank)
    assert pads[:rank] == pads[rank:], "asymmetric padding"
    return c.call(function, c(0), c(1), c(2), tuple(c.a.get("strides", [1] * rank)), tuple(pads[:rank]),
                  tuple(c.a.get("output_padding", [0] * rank)), c.a.get("group", 1),
                  tuple(c.a.get("dilations", [1] * rank)))


def pool(c, kind):
    rank = len(c.a["kernel_shape"])
    pads = c.a.get("pads", [0] * 2 * rank)
    assert pads[:rank] == pads[rank:], "asymmetric padding"
    arguments = [c(0), tuple(c.a["kernel_shape"]), tuple(c.a.get("strides", [1] * rank)), tuple(pads[:rank])]
    if kind == "avg":
        function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[rank]
        return c.call(function, *arguments, bool(c.a.get("ceil_mode", 0)), bool(c.a.get("count_include_pad", 0)))
    function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[rank]
    return c.call(function, *arguments, ceil_mode=bool(c.a.get("ceil_mode", 0)))


def global_average_pool(x):
    return {3: F.adaptive_avg_pool1d, 4: F.adaptive_avg_pool2d, 5: F.adaptive_avg_pool3d}[x.ndim](x, 1)


def gemm(c):
    right = c(1) if c.a.get("transB") else c.call(torch.t, c(1))
    return c.call(F.linear, c(0), right, c(2))


def reduction(function):
    def convert_(c):
        axes = c.a.get("axes") or c.const(1).tolist()
        return c.call(function, c(0), dim=tuple(axes), keepdim=bool(c.a.get("keepdims", 1)))
    return convert_


def slice_(c):
    starts, ends, axes = (c.const(i).tolist() for i in (1, 2, 3))
    steps = c.const(4, np.ones(len(axes), np.int64)).tolist()
    index = [slice(None)] * (max(axes) + 1)
    for axis, start, end, step in zip(axes, starts, ends, steps):
        index[axis] = slice(start, end, step)
    return c.call(operator.getitem, c(0), tuple(index))


def gather(c):
    place = c.const(1)
    if place is not None and place.ndim == 0:
        return c.call(torch.select, c(0), c.a.get("axis", 0), int(place))
    if c.a.get("axis", 0) == 0 and len(c.constants.get(c.node.input[0], np.empty(0)).shape) == 2:
        return c.call(F.embedding, c(1), c(0))
    return c.call(torch.index_select, c(0), c.a.get("axis", 0), c(1))


def unsqueeze(c):
    x = c(0)
    for axis in c.const(1).tolist():
        x = c.call(torch.unsqueeze, x, axis)
    return x


def squeeze(c):
    return c.call(torch.squeeze, c(0), tuple(c.const(1).tolist()))


def pad(c):
    assert c.a.get("mode", b"constant") == b"constant" and c.const(3) is None, "padding with a value alone"
    both = c.const(1).reshape(2, -1)
    return c.call(F.pad, c(0), [int(p) for axis in reversed(both.T.tolist()) for p in axis], "constant",
                  float(c.const(2, np.float32(0))))


def hard_sigmoid(c):
    """As torch has it where the slope is its own."""
    slope, middle = c.a.get("alpha", 0.2), c.a.get("beta", 0.5)
    if abs(slope - 1 / 6) < 1e-6 and middle == 0.5:
        return c.call(F.hardsigmoid, c(0))
    return c.call(torch.clamp, c.call(torch.add, c.call(torch.mul, c(0), slope), middle), 0.0, 1.0)


def batch_norm(c):
    return c.call(F.batch_norm, c(0), c(3), c(4), c(1), c(2), False, 0.0, c.a.get("epsilon", 1e-5))


def layer_norm(c):
    return c.call(F.layer_norm, c(0), list(c.constants[c.node.input[1]].shape), c(1), c(2), c.a.get("epsilon", 1e-5))


def clip(c):
    return c.call(torch.clamp, c(0), float(c.const(1, np.float32(-np.inf))), float(c.const(2, np.float32(np.inf))))


def cast(c):
    assert c.a["to"] == onnx.TensorProto.FLOAT, "casts to f32 alone"
    return c.fx.call_method("to", (c(0), c.dtype))


def concat(c):
    return c.call(torch.cat, tuple(c(i) for i in range(len(c.node.input))), c.a["axis"])


def unary(function):
    return lambda c: c.call(function, c(0))


def binary(function):
    """Scalars that are constants stay numbers, as a person would write them."""
    def convert_(c):
        operands = [c.constants.get(name) for name in c.node.input]
        arguments = [c(i) if o is None or o.ndim or o.dtype.kind != "f" else float(o) for i, o in enumerate(operands)]
        return c.call(function, *arguments)
    return convert_


ROWS = {
    "Conv": conv, "ConvTranspose": conv_transpose, "BatchNormalization": batch_norm, "Gemm": gemm,
    "LayerNormalization": layer_norm, "Clip": clip, "Gather": gather, "Slice": slice_, "Unsqueeze": unsqueeze,
    "Squeeze": squeeze, "Pad": pad, "HardSigmoid": hard_sigmoid,
    "MaxPool": lambda c: pool(c, "max"), "AveragePool": lambda c: pool(c, "avg"),
    "GlobalAveragePool": lambda c: c.call(global_average_pool, c(0)),
    "Flatten": lambda c: c.call(torch.flatten, c(0), c.a.get("axis", 1)),
    "Reshape": lambda c: c.call(torch.reshape, c(0), tuple(c.const(1).tolist())),
    "Transpose": transpose,
    "Softmax": lambda c: c.call(torch.softmax, c(0), dim=c.a.get("axis", -1)),
    "Cast": cast,
    "ReduceMean": reduction(torch.mean), "ReduceSum": reduction(torch.sum), "ReduceMax": reduction(torch.amax),
    "MatMul": binary(torch.matmul), "Add": binary(torch.add), "Sub": binary(torch.sub), "Mul": binary(torch.mul),
    "Div": binary(torch.div), "Pow": binary(torch.pow), "Relu": unary(torch.relu), "Sqrt": unary(torch.sqrt),
    "Erf": unary(torch.erf), "Exp": unary(torch.exp), "Tanh": unary(torch.tanh), "Sigmoid": unary(torch.sigmoid),
    "Identity": unary(torch.clone), "HardSwish": unary(F.hardswish), "Softplus": unary(F.softplus),
    "Concat": concat,
}
