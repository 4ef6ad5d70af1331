"""Models with other inputs and outputs, as engines on a GPU get them: images with channels last, 16-bit floats."""
import pathlib

import numpy as np
import onnx
from onnx import helper


def has_convolutions(graph):
    return any(node.op_type in ("Conv", "ConvTranspose") for node in graph.node)


def _extents(value):
    return [d.dim_value for d in value.type.tensor_type.shape.dim]


def _is_float(value):
    return value.type.tensor_type.elem_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)


def _fresh(name, known):
    while name in known:
        name += "_"
    return name


def _rewire(graph, values, node_for_input, node_for_output):
    """Puts a node between each of `values` and the graph inside, which sees it under another name."""
    known = {name for node in graph.node for name in [*node.input, *node.output]}
    inner = {v.name: _fresh(v.name + "_inner", known) for v in values}
    for node in graph.node:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
    inputs = {v.name for v in graph.input}
    before = [node_for_input(v, inner[v.name]) for v in values if v.name in inputs]
    after = [node_for_output(v, inner[v.name]) for v in values if v.name not in inputs]
    nodes = before + list(graph.node) + after
    del graph.node[:]
    graph.node.extend(nodes)


def channels_last(path):
    """The path of the model whose inputs and outputs of rank 4 and 5 have their channels last; the model itself where it
    has no convolutions."""
    document = onnx.load(path)
    graph = document.graph
    if not has_convolutions(graph):
        return pathlib.Path(path)
    values = [v for v in [*graph.input, *graph.output] if _is_float(v) and len(_extents(v)) in (4, 5)]

    def to_inside(value, inner):
        rank = len(_extents(value))
        return helper.make_node("Transpose", [value.name], [inner], perm=[0, rank - 1, *range(1, rank - 1)])

    def to_outside(value, inner):
        return helper.make_node("Transpose", [inner], [value.name], perm=[0, *range(2, len(_extents(value))), 1])
    _rewire(graph, values, to_inside, to_outside)
    for value in values:
        batch, channels, *sides = _extents(value)
        del value.type.tensor_type.shape.dim[:]
        for extent in (batch, *sides, channels):
            value.type.tensor_type.shape.dim.add().dim_value = extent
    return _save(document, path, ".last")


def with_type(path, dtype):
    """The path of the model whose float inputs and outputs are of `dtype`, by casts to and from f32."""
    if dtype == "f32":
        return pathlib.Path(path)
    document = onnx.load(path)
    values = [v for v in [*document.graph.input, *document.graph.output] if _is_float(v)]
    _rewire(document.graph, values,
            lambda v, inner: helper.make_node("Cast", [v.name], [inner], to=onnx.TensorProto.FLOAT),
            lambda v, inner: helper.make_node("Cast", [inner], [v.name], to=onnx.TensorProto.FLOAT16))
    for value in values:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return _save(document, path, "." + dtype)


def models(case, dtype):
    """(the peers' model, Tilewright's) of a case on a GPU. Modules of torch's take images as they were exported with."""
    last = (lambda model: pathlib.Path(model)) if case.own_module else channels_last
    return last(case.model), last(with_type(case.model, dtype))


def _save(document, path, suffix):
    path = pathlib.Path(path)
    out = path.with_name(path.stem + suffix + ".onnx")
    onnx.save(document, out)
    return out


def feeds_for(model, feeds):
    """The feeds of a model with channels last at its edges, from those of the model that it was made of."""
    shapes = {v.name: _extents(v) for v in onnx.load(model).graph.input}
    return {name: a if list(a.shape) == shapes[name] else np.ascontiguousarray(np.moveaxis(a, 1, -1))
            for name, a in feeds.items()}
