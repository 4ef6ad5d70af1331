"""An ONNX graph as a JAX function, for XLA. Weights are arguments: what XLA would fold at length stays what it is."""
import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import onnx_folding


def convert(path, input_names, dtype):
    """(function of (weights, *inputs) -> outputs, weights). Floats are of `dtype`. NotImplementedError names the
    operators without a row."""
    graph = onnx_folding.fold_batch_norms(onnx_folding.fold_constants(onnx.load(path))).graph
    constants = {t.name: np.array(numpy_helper.to_array(t)) for t in graph.initializer}
    missing = sorted({node.op_type for node in graph.node} - set(ROWS))
    if missing:
        raise NotImplementedError(f"not run: this graph's {', '.join(missing)} is not written in JAX here")
    nodes = []
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        nodes.append((ROWS[node.op_type], node, attributes))
    weights = {name: in_range(array, dtype) for name, array in constants.items()}
    outputs = [o.name for o in graph.output]

    def function(weights, *inputs):
        values = dict(weights, **dict(zip(input_names, inputs)))
        for row, node, attributes in nodes:
            result = row(Context(node, attributes, values, constants, dtype))
            values.update(zip(node.output, result if isinstance(result, tuple) else (result,)))
        return [values[name] for name in outputs]
    return function, weights


def in_range(array, dtype):
    """A mask of -3.4e38 is the lowest finite number of f16: times zero it stays zero."""
    if array.dtype != np.float32:
        return array
    limits = np.finfo(dtype)
    return np.clip(array, limits.min, limits.max).astype(dtype)


class Context:
    """One ONNX node: c(i) its i-th input, c.const(i) the same as numpy, c.a its attributes."""

    def __init__(self, node, attributes, values, constants, dtype):
        self.node, self.a, self.dtype, self._values, self._constants = node, attributes, dtype, values, constants

    def __call__(self, index):
        names = self.node.input
        return self._values[names[index]] if index < len(names) and names[index] else None

    def const(self, index, default=None):
        names = self.node.input
        return self._constants[names[index]] if index < len(names) and names[index] else default


def pairs(c, rank):
    pads = c.a.get("pads", [0] * 2 * rank)
    return list(zip(pads[:rank], pads[rank:]))


def conv(c):
    from jax import lax
    rank = len(c.a["kernel_shape"])
    spatial = "DHW"[3 - rank:]
    names = ("NC" + spatial, "OI" + spatial, "NC" + spatial)
    y = lax.conv_general_dilated(c(0), c(1), c.a.get("strides", [1] * rank), pairs(c, rank),
                                 rhs_dilation=c.a.get("dilations", [1] * rank), dimension_numbers=names,
                                 feature_group_count=c.a.get("group", 1))
    return y if c(2) is None else y + c(2).reshape(1, -1, *[1] * rank)


def to_last_window(extent, pads, kernel, stride):
    """`pads`, longer at the end where windows are counted up and the last one reaches beyond it."""
    before, after = pads
    windows = 1 + -(-(extent + before + after - kernel) // stride)
    if (windows - 1) * stride >= extent + before:  # begins beyond what is there
        windows -= 1
    return before, max(after, (windows - 1) * stride + kernel - extent - before)


def pool(c, kind):
    from jax import lax
    kernel = c.a["kernel_shape"]
    rank, counts_up = len(kernel), bool(c.a.get("ceil_mode", 0))
    window, strides = (1, 1, *kernel), (1, 1, *c.a.get("strides", [1] * rank))
    padding = [(0, 0), (0, 0), *pairs(c, rank)]
    if counts_up:
        padding = [to_last_window(*axis) for axis in zip(c(0).shape, padding, window, strides)]
    if kind == "max":
        return lax.reduce_window(c(0), np.array(-np.inf, c.dtype), lax.max, window, strides, padding)
    assert not any(map(sum, padding)) or (c.a.get("count_include_pad", 0) and not counts_up), "averages of pixels alone"
    total = lax.reduce_window(c(0).astype(np.float32), np.float32(0), lax.add, window, strides, padding)
    return (total / math.prod(kernel)).astype(c.dtype)


def gemm(c):
    y = c(0) @ (c(1).T if c.a.get("transB") else c(1))
    return y if c(2) is None else y + c(2)


def wide(c, function):
    """In f32, as means and variances want it."""
    return function(c(0).astype(np.float32)).astype(c.dtype)


def reduction(name):
    def convert_(c):
        import jax.numpy as jnp
        axes = c.a.get("axes") or c.const(1).tolist()
        return wide(c, lambda x: getattr(jnp, name)(x, axis=tuple(axes), keepdims=bool(c.a.get("keepdims", 1))))
    return convert_


def layer_norm(c):
    import jax.numpy as jnp
    from jax import lax

    def normal(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + c.a.get("epsilon", 1e-5))
    return wide(c, normal) * c(1) + c(2)


def batch_norm(c):
    from jax import lax
    gain, shift, mean, variance = (c(i).reshape(-1, *[1] * (c(0).ndim - 2)) for i in range(1, 5))
    return wide(c, lambda x: (x - mean) * lax.rsqrt(variance + c.a.get("epsilon", 1e-5)) * gain + shift)


def pad(c):
    import jax.numpy as jnp
    assert c.a.get("mode", b"constant") == b"constant" and c.const(3) is None, "padding with a value alone"
    return jnp.pad(c(0), c.const(1).reshape(2, -1).T.tolist(), constant_values=float(c.const(2, np.float32(0))))


def hard_sigmoid(c):
    import jax.numpy as jnp
    return jnp.clip(c.a.get("alpha", 0.2) * c(0) + c.a.get("beta", 0.5), 0, 1)


def slice_(c):
    starts, ends, axes = (c.const(i).tolist() for i in (1, 2, 3))
    steps = c.const(4, np.ones(len(axes), np.int64)).tolist()
    index = [slice(None)] * c(0).ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        index[axis] = slice(start, end, step)
    return c(0)[tuple(index)]


def clip(c):
    import jax.numpy as jnp
    return jnp.clip(c(0), float(c.const(1, np.float32(-np.inf))), float(c.const(2, np.float32(np.inf))))


def power(c):
    import jax.numpy as jnp
    exponent = c.const(1)
    return jnp.square(c(0)) if exponent is not None and exponent.size == 1 and exponent == 2 else c(0) ** c(1)


def numpy_call(name):
    def convert_(c):
        import jax.numpy as jnp
        return getattr(jnp, name)(*(c(i) for i in range(len(c.node.input))))
    return convert_


def neural(name):
    def convert_(c):
        import jax
        return getattr(jax.nn, name)(c(0))
    return convert_


def softmax(c):
    import jax
    return wide(c, lambda x: jax.nn.softmax(x, c.a.get("axis", -1)))


def erf(c):
    from jax import lax
    return lax.erf(c(0))


def unsqueeze(c):
    import jax.numpy as jnp
    return jnp.expand_dims(c(0), tuple(c.const(1).tolist()))


def split(c):
    import jax.numpy as jnp
    sizes = c.const(1)
    parts = len(c.node.output) if sizes is None else np.cumsum(sizes)[:-1].tolist()
    return tuple(jnp.split(c(0), parts, c.a.get("axis", 0)))


def expand(c):
    import jax.numpy as jnp
    return jnp.broadcast_to(c(0), np.broadcast_shapes(c(0).shape, tuple(c.const(1).tolist())))


def cast(c):
    """Floats to the function's own type."""
    kind = helper.tensor_dtype_to_np_dtype(c.a["to"])
    return c(0).astype(c.dtype if kind.kind == "f" else kind)


def gelu(c):
    import jax
    return jax.nn.gelu(c(0), approximate=c.a.get("approximate") == b"tanh")


def argmax(c):
    import jax.numpy as jnp
    return jnp.argmax(c(0), c.a.get("axis", 0), keepdims=bool(c.a.get("keepdims", 1)))


def concat(c):
    import jax.numpy as jnp
    return jnp.concatenate([c(i) for i in range(len(c.node.input))], c.a["axis"])


ROWS = {
    "Conv": conv, "Gemm": gemm, "LayerNormalization": layer_norm, "Clip": clip, "Slice": slice_, "Pow": power,
    "MaxPool": lambda c: pool(c, "max"), "AveragePool": lambda c: pool(c, "avg"), "Softmax": softmax, "Erf": erf,
    "GlobalAveragePool": lambda c: wide(c, lambda x: x.mean(tuple(range(2, x.ndim)), keepdims=True)),
    "Flatten": lambda c: c(0).reshape(math.prod(c(0).shape[:c.a.get("axis", 1)]), -1),
    "Reshape": lambda c: c(0).reshape([c(0).shape[i] if d == 0 else d for i, d in enumerate(c.const(1).tolist())]),
    "Transpose": lambda c: c(0).transpose(c.a["perm"]),
    "Gather": lambda c: c(0).take(c(1), axis=c.a.get("axis", 0)),
    "BatchNormalization": batch_norm, "HardSigmoid": hard_sigmoid, "Pad": pad,
    "Squeeze": lambda c: c(0).squeeze(tuple(c.const(1).tolist())),
    "Unsqueeze": unsqueeze, "Concat": concat, "Cast": cast, "Split": split,
    "Expand": expand, "Gelu": gelu, "ArgMax": argmax, "Equal": numpy_call("equal"), "Neg": numpy_call("negative"),
    "Reciprocal": numpy_call("reciprocal"),
    "ReduceMean": reduction("mean"), "ReduceSum": reduction("sum"), "ReduceMax": reduction("max"),
    "MatMul": numpy_call("matmul"), "Add": numpy_call("add"), "Sub": numpy_call("subtract"),
    "Mul": numpy_call("multiply"), "Div": numpy_call("divide"), "Sqrt": numpy_call("sqrt"), "Exp": numpy_call("exp"),
    "Tanh": numpy_call("tanh"), "Identity": numpy_call("array"), "Relu": neural("relu"), "Sigmoid": neural("sigmoid"),
    "HardSwish": neural("hard_swish"), "Softplus": neural("softplus"),
}
