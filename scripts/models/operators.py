"""Models of one operator from a specification, a dictionary as it stands in a JSON file:

  {"name": .., "op": "conv", "batch", "cin", "cout", "in": [side, ..], "kernel": [..]}, and where they differ from these:
      "stride": [1, ..], "pad": [kernel / 2, ..], "dilation": [1, ..], "group": 1, "transposed": false, "bias": false,
      "activation": null or an element-wise operator's name, "repeat": 1 (that many in a row, weights of their own),
      "reduced": [kind, [axis, ..]], one of REDUCTIONS of the result
  {"op": "conv_gradient", "of": "data" or "weights", ..}       as training has it of a conv without groups: of dy and w
      the transposed convolution, of x and dy a convolution over the images; channels last at the edges, no constants
  {"op": "matmul", "shape": [.., m, k], "n": n}               y[.., m, n] = x w, w a weight [k, n]; "bias", "activation",
      "reduced"
  {"op": "chain", "stages": [{..}, ..]}                       convolutions, or products as {"op": "matmul", "n": n} with
      "shape" at the first one; each reads what the one before it gives, has a bias and is followed by Relu
  {"op": "batch_matmul", "shape": [.., m, k], "n": n}         w is an input [.., k, n]
  {"op": "matmul_of_itself", "kind": "gram", "shape": [.., m, k]}   one of OF_ITSELF: square x x (m = k), gram x x^T,
      covariance x^T x, attention softmax(x x^T / sqrt k) x, residual x x + x (m = k)
  {"op": "attention", "shape": [batch, heads, rows, k], "keys": n, "mask": null}   softmax(q k^T / sqrt k) v with one
      of MASKS: causal and window (select), added (causal), guarded (added, the first row without any key, NaN to 0)
  {"op": "conv_of_itself", "shape": [n, c, ..], "pad"}        x convolved with x
  {"op": "elementwise", "kind": "Relu", "shape": [..]}        one of UNARY or BINARY; binary ones take two inputs, or
      with "one_value": true one that is both
  {"op": "pool", "kind": "MaxPool", "shape": [n, c, ..], "kernel", "stride", "pad"}
  {"op": "reduce", "kind": "ReduceSum", "shape": [..], "axes": [..]}; kinds: REDUCTIONS, Softmax, LayerNormalization
  {"op": "transpose", "shape": [..], "perm": [..]}
  {"op": "gather", "shape": [rows, ..], "count": n}           n rows of x, their numbers a second input
  {"op": "concat", "shapes": [[..], [..]], "axis"}            of equal shapes also with "one_value": true
  {"op": "resize", "kind": "linear", "shape": [n, c, ..], "scales": [..]}; kinds: nearest, linear, cubic
  {"op": "outputs", "kind": "activation", "shape": [.., rows, n]}   of several outputs, one of OUTPUTS:
      activation relu(x w + bias) and its argument, x [.., rows, k] with "k": k; norm layer norm, mean and inverse
      deviation; sums Relu(x) * y and its sums over rows; means the same of relu(x w + bias); siblings Relu(x), Tanh(x)
"""
import math

import numpy as np

from .builder import Builder

UNARY = ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "Identity", "HardSwish", "Softplus")
BINARY = ("Add", "Mul", "Sub", "Div")
OF_ITSELF = ("square", "gram", "covariance", "attention", "residual")
MASKS = (None, "causal", "window", "added", "guarded")
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax")
OUTPUTS = ("activation", "norm", "sums", "means", "siblings")


def geometry(spec):
    """(stride, pad, dilation, output sides) of a convolution's or pooling's specification."""
    rank = len(spec["kernel"])
    stride, dilation = spec.get("stride", [1] * rank), spec.get("dilation", [1] * rank)
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, spec["kernel"])]
    pad = spec.get("pad", [e // 2 for e in extent])
    sides = spec["in"] if "in" in spec else spec["shape"][2:]
    if spec.get("transposed"):
        out = [(i - 1) * s - 2 * p + e for i, s, p, e in zip(sides, stride, pad, extent)]
    else:
        out = [(i + 2 * p - e) // s + 1 for i, s, p, e in zip(sides, stride, pad, extent)]
    return stride, pad, dilation, out


def flop(spec):
    """Multiplications and additions of a contraction as the definition has them, padding included; else 0."""
    if spec["op"] in ("conv", "conv_gradient"):
        sides = spec["in"] if spec.get("transposed") else geometry(spec)[3]
        each = spec["batch"] * spec["cin"] * spec["cout"] // spec.get("group", 1) * math.prod(spec["kernel"])
        return 2 * each * math.prod(sides) * spec.get("repeat", 1)
    if spec["op"] in ("matmul", "batch_matmul"):
        return 2 * math.prod(spec["shape"]) * spec["n"]
    return sum(map(flop, stages(spec))) if spec["op"] == "chain" else 0


def stages(spec):
    """The specifications of a chain's stages, each with the shape that it reads."""
    batch, result = spec.get("batch", 1), []
    for stage in spec["stages"]:
        given = dict(stage, bias=True, activation="Relu")
        if stage["op"] == "conv":
            before = {"cin": result[-1]["cout"], "in": geometry(result[-1])[3]} if result else {}
            result.append(dict(before, batch=batch, **given))
        else:
            before = {"shape": [*result[-1]["shape"][:-1], result[-1]["n"]]} if result else {}
            result.append(dict(before, **given))
    return result


def _plain_input(b, name, shape):
    b.batch = shape[0]
    return b.input(name, shape[1:])


def _finish(b, value, shape):
    b.batch = shape[0]
    b.output(value, shape[1:], "y")
    return b


def _activated(b, y, kind):
    if kind == "Gelu":  # as exporters of this opset write it
        half = b.node("Mul", [y, b.constant(np.float32(0.5))])
        part = b.node("Erf", [b.node("Div", [y, b.constant(np.float32(math.sqrt(2)))])])
        return b.node("Mul", [half, b.node("Add", [part, b.constant(np.float32(1))])])
    return b.node(kind, [y]) if kind else y


def _reduction(b, x, kind, axes):
    if kind == "ReduceSum":  # its axes are an input since opset 13
        return b.node(kind, [x, b.weight("axes", np.array(axes, np.int64))], keepdims=1)
    return b.node(kind, [x], axes=axes, keepdims=1)


def _reduced(b, y, spec, shape):
    """A contraction's result and its shape, reduced where the specification says so."""
    if "reduced" not in spec:
        return y, shape
    kind, axes = spec["reduced"]
    return _reduction(b, y, kind, axes), [1 if i in axes else d for i, d in enumerate(shape)]


def _conv_node(b, x, spec, index):
    stride, pad, dilation, _ = geometry(spec)
    cin, cout, group, kernel = spec["cin"], spec["cout"], spec.get("group", 1), spec["kernel"]
    shape = (cin, cout // group, *kernel) if spec.get("transposed") else (cout, cin // group, *kernel)
    std = round(1 / math.sqrt(cin // group * math.prod(kernel)), 8)
    inputs = [x, b.normal(f"w{index}", shape, std)]
    if spec.get("bias"):
        inputs.append(b.normal(f"bias{index}", (cout,), 0.1))
    y = b.node("ConvTranspose" if spec.get("transposed") else "Conv", inputs, kernel_shape=kernel, strides=stride,
               pads=pad + pad, dilations=dilation, group=group)
    return _activated(b, y, spec.get("activation"))


def conv(b, spec):
    x = _plain_input(b, "x", [spec["batch"], spec["cin"], *spec["in"]])
    for index in range(spec.get("repeat", 1)):
        x = _conv_node(b, x, spec, index)
    return _finish(b, *_reduced(b, x, spec, [spec["batch"], spec["cout"], *geometry(spec)[3]]))


def _first(b, x, rank):
    """[n, side, .., channels] as [n, channels, side, ..]."""
    return b.node("Transpose", [x], perm=[0, rank + 1, *range(1, rank + 1)])


def _swapped(b, x, rank):
    return b.node("Transpose", [x], perm=[1, 0, *range(2, rank + 2)])


def conv_gradient_inputs(spec):
    """{name: shape}, channels last."""
    batch, cin, cout, sides, out = spec["batch"], spec["cin"], spec["cout"], spec["in"], geometry(spec)[3]
    dy = {"dy": [batch, *out, cout]}
    return {**dy, "w": [cout, *spec["kernel"], cin]} if spec["of"] == "data" else {"x": [batch, *sides, cin], **dy}


def conv_gradient(b, spec):
    stride, pad, dilation, out = geometry(spec)
    kernel, rank, values = spec["kernel"], len(spec["kernel"]), {}
    for name, shape in conv_gradient_inputs(spec).items():
        values[name] = _first(b, _plain_input(b, name, shape), rank)
    # How far the image and its padding go on behind the last window.
    rest = [i + 2 * p - (o - 1) * s - (k - 1) * d - 1
            for i, p, o, s, k, d in zip(spec["in"], pad, out, stride, kernel, dilation)]
    if spec["of"] == "data":
        y = b.node("ConvTranspose", [values["dy"], values["w"]], kernel_shape=kernel, strides=stride, pads=pad + pad,
                   dilations=dilation, output_padding=rest)
        shape = [spec["batch"], *spec["in"], spec["cin"]]
    else:
        x, behind = values["x"], [p - r for p, r in zip(pad, rest)]
        if min(behind) < 0:  # no window reads the last pixels
            ends = [i + min(0, e) for i, e in zip(spec["in"], behind)]
            given = ([0] * rank, ends, list(range(2, rank + 2)))
            x = b.node("Slice", [x, *(b.constant(np.array(numbers, np.int64)) for numbers in given)])
        y = b.node("Conv", [_swapped(b, x, rank), _swapped(b, values["dy"], rank)], kernel_shape=out, strides=dilation,
                   dilations=stride, pads=pad + [max(0, e) for e in behind])
        y, shape = _swapped(b, y, rank), [spec["cout"], *kernel, spec["cin"]]
    return _finish(b, b.node("Transpose", [y], perm=[0, *range(2, rank + 2), 1]), shape)


def matmul(b, spec):
    *outer, k = spec["shape"]
    x = _plain_input(b, "x", spec["shape"])
    if spec["op"] == "batch_matmul":
        right = _plain_input(b, "w", [*outer[:-1], k, spec["n"]])
    else:
        right = b.normal("w", (k, spec["n"]), round(1 / math.sqrt(k), 8))
    y = b.node("MatMul", [x, right])
    if spec.get("bias"):
        y = b.node("Add", [y, b.normal("bias", (spec["n"],), 0.1)])
    return _finish(b, *_reduced(b, _activated(b, y, spec.get("activation")), spec, [*outer, spec["n"]]))


def chain(b, spec):
    *_, last = listed = stages(spec)
    is_conv = last["op"] == "conv"
    x = _plain_input(b, "x", [spec["batch"], listed[0]["cin"], *listed[0]["in"]] if is_conv else listed[0]["shape"])
    for index, stage in enumerate(listed):
        if is_conv:
            x = _conv_node(b, x, stage, index)
        else:
            x = b.relu(b.gemm(x, f"gemm{index}", stage["shape"][-1], stage["n"]))
    shape = [spec["batch"], last["cout"], *geometry(last)[3]] if is_conv else [*last["shape"][:-1], last["n"]]
    return _finish(b, x, shape)


def matmul_of_itself(b, spec):
    *outer, m, k = spec["shape"]
    kind = spec["kind"]
    x = _plain_input(b, "x", spec["shape"])
    if kind in ("square", "residual"):
        y = b.node("MatMul", [x, x])
        return _finish(b, b.node("Add", [y, x]) if kind == "residual" else y, spec["shape"])
    rank = len(spec["shape"])
    turned = b.node("Transpose", [x], perm=[*range(rank - 2), rank - 1, rank - 2])
    if kind == "covariance":
        return _finish(b, b.node("MatMul", [turned, x]), [*outer, k, k])
    if kind == "gram":
        return _finish(b, b.node("MatMul", [x, turned]), [*outer, m, m])
    scores = b.node("Mul", [b.node("MatMul", [x, turned]), b.constant(np.float32(1 / math.sqrt(k)))])
    scores = b.node("Softmax", [scores], axis=-1)
    return _finish(b, b.node("MatMul", [scores, x]), spec["shape"])


def _repeated(b, x, shared, shape):
    """Heads of [batch, heads, keys, k], each `shared` times, to `shape`."""
    if shared == 1:
        return x
    batch, heads, keys, k = shape
    x = b.node("Reshape", [x, b.constant(np.array([batch, heads // shared, 1, keys, k], np.int64))])
    x = b.node("Expand", [x, b.constant(np.array([batch, heads // shared, shared, keys, k], np.int64))])
    return b.node("Reshape", [x, b.constant(np.array(shape, np.int64))])


def attention(b, spec):
    batch, heads, rows, k = spec["shape"]
    keys, kind, key_heads = spec["keys"], spec.get("mask"), spec.get("key_heads", heads)
    b.batch = batch
    q = b.input("q", [heads, rows, k])
    key, v = (_repeated(b, b.input(name, [key_heads, keys, k]), heads // key_heads, [batch, heads, keys, k])
              for name in ("k", "v"))
    x = b.node("MatMul", [q, b.node("Transpose", [key], perm=[0, 1, 3, 2])])
    x = b.node("Mul", [x, b.constant(np.float32(1 / math.sqrt(k)))])
    behind = np.arange(keys)[None] - np.arange(rows)[:, None]
    if kind in ("causal", "window"):
        seen = behind <= 0 if kind == "causal" else (behind <= 0) & (behind > -40)
        x = b.node("Where", [b.constant(seen), x, b.constant(np.float32(-3.4e38))])
    elif kind is not None:
        seen = behind < (1 if kind == "added" else 0)
        x = b.node("Add", [x, b.constant(np.where(seen, np.float32(0), np.float32(-np.inf)))])
    x = b.node("Softmax", [x], axis=-1)
    if kind == "guarded":
        x = b.node("Where", [b.node("IsNaN", [x]), b.constant(np.float32(0)), x])
    return _finish(b, b.node("MatMul", [x, v]), spec["shape"])


def conv_of_itself(b, spec):
    n, c, *sides = spec["shape"]
    x = _plain_input(b, "x", spec["shape"])
    y = b.node("Conv", [x, x], kernel_shape=sides, pads=spec["pad"] + spec["pad"])
    return _finish(b, y, [n, n, *(2 * p + 1 for p in spec["pad"])])


def elementwise(b, spec):
    shape, kind = spec["shape"], spec["kind"]
    inputs = [_plain_input(b, "x", shape)]
    if kind in BINARY:
        inputs.append(inputs[0] if spec.get("one_value") else _plain_input(b, "z", shape))
    if kind in ("Sqrt", "Div"):  # where they are defined
        b.feeds = {name: np.abs(array) + np.float32(0.5) for name, array in b.feeds.items()}
    return _finish(b, b.node(kind, inputs), shape)


def pool(b, spec):
    stride, pad, _, out = geometry(spec)
    x = _plain_input(b, "x", spec["shape"])
    y = b.node(spec["kind"], [x], kernel_shape=spec["kernel"], strides=stride, pads=pad + pad)
    return _finish(b, y, [*spec["shape"][:2], *out])


def reduce(b, spec):
    shape, axes, kind = spec["shape"], spec["axes"], spec["kind"]
    x = _plain_input(b, "x", shape)
    if kind == "Softmax":
        return _finish(b, b.node(kind, [x], axis=axes[0]), shape)
    if kind == "LayerNormalization":
        width = (shape[-1],)
        inputs = [x, b.uniform("scale", width, 0.8, 1.2), b.uniform("bias", width, -0.1, 0.1)]
        return _finish(b, b.node(kind, inputs, axis=-1, epsilon=1e-5), shape)
    axes = [a % len(shape) for a in axes]
    out = [1 if i in axes else d for i, d in enumerate(shape)]
    return _finish(b, _reduction(b, x, kind, axes), out)


def transpose(b, spec):
    shape, perm = spec["shape"], spec["perm"]
    x = _plain_input(b, "x", shape)
    return _finish(b, b.node("Transpose", [x], perm=perm), [shape[axis] for axis in perm])


def gather(b, spec):
    rows, *row = spec["shape"]
    x = _plain_input(b, "x", spec["shape"])
    b.batch = spec["count"]
    index = b.input("index", [], "i64", high=rows)
    return _finish(b, b.node("Gather", [x, index], axis=0), [spec["count"], *row])


def concat(b, spec):
    shapes, axis = spec["shapes"], spec["axis"]
    inputs = [_plain_input(b, f"x{i}", shape) for i, shape in enumerate(shapes[:1] if spec.get("one_value") else shapes)]
    inputs = inputs * len(shapes) if spec.get("one_value") else inputs
    out = list(shapes[0])
    out[axis] = sum(shape[axis] for shape in shapes)
    return _finish(b, b.node("Concat", inputs, axis=axis), out)


def resize(b, spec):
    shape, scales = spec["shape"], spec["scales"]
    x = _plain_input(b, "x", shape)
    factors = b.weight("scales", np.array([1, 1, *scales], np.float32))
    y = b.node("Resize", [x, "", factors], mode=spec["kind"], coordinate_transformation_mode="half_pixel")
    return _finish(b, y, [*shape[:2], *(math.floor(d * s) for d, s in zip(shape[2:], scales))])


def _leave(b, shape, *names):
    b.batch = shape[0]
    for name in names:
        b.leave(name, shape[1:])


def _sum_of_columns(b, value, spec, kind, name):
    """Over the rows, the axis before the last one."""
    *outer, n = spec["shape"]
    rows = len(outer) - 1
    inputs, attributes = [value], {"axes": [rows]}
    if kind == "ReduceSum":
        inputs, attributes = [value, b.weight("axes", np.array([rows], np.int64))], {}
    b.node(kind, inputs, out=name, keepdims=1, **attributes)
    _leave(b, [*outer[:-1], 1, n], name)


def outputs(b, spec):
    *outer, n = spec["shape"]
    kind = spec["kind"]
    if kind in ("activation", "means"):
        x = _plain_input(b, "x", [*outer, spec["k"]])
        product = b.node("MatMul", [x, b.normal("w", (spec["k"], n), round(1 / math.sqrt(spec["k"]), 8))])
        b.node("Relu", [b.node("Add", [product, b.normal("bias", (n,), 0.1)], out="pre")], out="y")
        _leave(b, spec["shape"], "y")
        if kind == "activation":
            _leave(b, spec["shape"], "pre")
        else:
            _sum_of_columns(b, "y", spec, "ReduceMean", "mean")
        return b
    x = _plain_input(b, "x", spec["shape"])
    if kind == "norm":
        inputs = [x, b.uniform("scale", (n,), 0.8, 1.2), b.uniform("bias", (n,), -0.1, 0.1)]
        b.node_of_several("LayerNormalization", inputs, ["y", "mean", "inverse"], axis=-1, epsilon=1e-5)
        _leave(b, spec["shape"], "y")
        _leave(b, [*outer, 1], "mean", "inverse")
    elif kind == "siblings":
        b.node("Relu", [x], out="y")
        b.node("Tanh", [x], out="z")
        _leave(b, spec["shape"], "y", "z")
    else:
        b.node("Mul", [b.node("Relu", [x]), _plain_input(b, "g", spec["shape"])], out="v")
        _leave(b, spec["shape"], "v")
        _sum_of_columns(b, "v", spec, "ReduceSum", "s")
    return b


KINDS = {"conv": conv, "matmul": matmul, "batch_matmul": matmul, "chain": chain, "matmul_of_itself": matmul_of_itself,
         "attention": attention, "conv_of_itself": conv_of_itself, "conv_gradient": conv_gradient, "elementwise": elementwise, "pool": pool,
         "reduce": reduce, "transpose": transpose, "gather": gather, "concat": concat, "resize": resize,
         "outputs": outputs}


def build(spec, seed):
    return KINDS[spec["op"]](Builder(spec["name"], seed), spec)
