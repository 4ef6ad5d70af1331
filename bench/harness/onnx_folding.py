"""What whoever deploys a model does for any engine: what depends on constants and on shapes alone is computed, and batch
norms that follow a convolution become part of its weights."""
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def fold_constants(model):
    """A copy of the model without nodes whose results are known beforehand: those are initializers. Convolutions say
    their kernel_shape, which a model may leave to the shape of the weights."""
    while True:
        count = len(model.graph.node)
        model = _without_known_nodes(onnx.shape_inference.infer_shapes(model, data_prop=True))
        if len(model.graph.node) == count:
            return _with_kernel_shapes(model)


def _with_kernel_shapes(model):
    """`model`, changed."""
    graph = model.graph
    extents = {t.name: list(t.dims) for t in graph.initializer}
    extents.update({v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*graph.input, *graph.value_info]})
    for node in graph.node:
        if node.op_type in ("Conv", "ConvTranspose") and all(a.name != "kernel_shape" for a in node.attribute):
            node.attribute.append(helper.make_attribute("kernel_shape", extents[node.input[1]][2:]))
    return model


def _without_known_nodes(model):
    """`model`, changed: without what follows from constants and from shapes that are known already."""
    graph = model.graph
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    extents = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*graph.input, *graph.value_info]}
    kept = []
    for node in graph.node:
        shape = extents.get(node.input[0], [0]) if node.op_type == "Shape" else [0]
        if all(shape):
            values = ReferenceEvaluator(node).run(None, {node.input[0]: np.empty(shape, np.bool_)})
        elif all(name in known for name in node.input if name):
            values = ReferenceEvaluator(node).run(None, {name: known[name] for name in node.input if name})
        else:
            kept.append(node)
            continue
        known.update(zip(node.output, values))
    read = {name for node in kept for name in node.input} | {o.name for o in graph.output}
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in known.items() if n in read)
    return model


def fold_batch_norms(model):
    """The model, changed: a BatchNormalization that alone reads a Conv of constant weights is gone."""
    graph = model.graph
    constants = {t.name: t for t in graph.initializer}
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    norms = {n.input[0]: n for n in graph.node if n.op_type == "BatchNormalization"}
    for node in [n for n in graph.node if n.op_type == "Conv"]:
        norm = norms.get(node.output[0])
        if norm is None or len(readers[node.output[0]]) != 1 or node.input[1] not in constants:
            continue
        weight, bias = folded(node, norm, constants)
        names = [f"{node.output[0]}.folded_weight", f"{node.output[0]}.folded_bias"]
        graph.initializer.extend(numpy_helper.from_array(a, n) for a, n in zip((weight, bias), names))
        node.input[:] = [node.input[0], *names]
        node.output[0] = norm.output[0]
        graph.node.remove(norm)
    return model


def folded(node, norm, constants):
    """Weight and bias of the convolution with the norm behind it."""
    weight, bias = (numpy_helper.to_array(constants[n]).astype(np.float64) if n else 0.0
                    for n in [*node.input[1:], ""][:2])
    gain, shift, mean, variance = (numpy_helper.to_array(constants[n]).astype(np.float64) for n in norm.input[1:5])
    epsilon = next((helper.get_attribute_value(a) for a in norm.attribute if a.name == "epsilon"), 1e-5)
    scale = gain / np.sqrt(variance + epsilon)
    weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
    return weight.astype(np.float32), ((bias - mean) * scale + shift).astype(np.float32)
