"""A graph under construction: nodes, seeded weights, and an estimate of every activation's mean and variance.

The estimates let weights be scaled so that activations stay of order one through any depth without running the
network: filters are centred (they sum to zero), so a filter of n weights with standard deviation s maps an input of
variance v to variance n * s^2 * v whatever the input's mean is (Arpit et al. 2016, "Normalization propagation").
Every weight has its own random stream, keyed by seed, model and tensor name: order of construction does not matter.
"""
import math
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8  # what exporters write beside opset 17
_TYPES = {"f32": TensorProto.FLOAT, "i64": TensorProto.INT64}


def clipped_moments(mean, var, low=0.0, high=math.inf):
    """Mean and variance of min(max(x, low), high) for x ~ N(mean, var); four digits, so that libm does not matter."""
    sigma, steps = math.sqrt(var), 4000
    total = first = second = 0.0
    for i in range(steps + 1):
        z = -6.0 + 12.0 * i / steps
        weight = math.exp(-0.5 * z * z)
        y = min(max(mean + sigma * z, low), high)
        total, first, second = total + weight, first + weight * y, second + weight * y * y
    average = first / total
    return round(average, 4), round(max(second / total - average * average, 1e-4), 4)


class Builder:
    """Collects one model. Activations are named by strings; `moments[name]` is their estimated (mean, variance)."""

    def __init__(self, name, seed, batch=1, dynamic=False):
        self.name, self.seed, self.batch, self.dynamic = name, seed, batch, dynamic
        self.nodes, self.weights, self.graph_inputs, self.graph_outputs = [], [], [], []
        self.feeds, self.moments, self._counts = {}, {}, {}

    # --- values -----------------------------------------------------------------------------------------------
    def rng(self, tensor):
        keys = [self.seed, zlib.crc32(self.name.encode()), zlib.crc32(tensor.encode())]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(keys)))

    def input(self, name, dims, kind="f32", high=None):
        """A graph input [batch, *dims]. Feeds: f32 is N(0,1); i64 is uniform in [0, high), or a mask if high is 0."""
        shape = [self.batch, *dims]
        rng = self.rng("input " + name)
        if kind == "f32":
            self.feeds[name] = rng.standard_normal(shape, dtype=np.float32)
        elif high:
            self.feeds[name] = rng.integers(0, high, shape, dtype=np.int64)
        else:
            lengths = rng.integers(max(1, dims[-1] * 3 // 4), dims[-1] + 1, [self.batch, 1])
            self.feeds[name] = (np.arange(dims[-1])[None, :] < lengths).astype(np.int64)
        declared = ["batch" if self.dynamic else self.batch, *dims]
        self.graph_inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], declared))
        self.moments[name] = (0.0, 1.0)
        return name

    def output(self, value, dims, name):
        if not self._rename(value, name):
            self.node("Identity", [value], out=name)
        self.leave(name, dims)

    def leave(self, name, dims):
        """The value `name` is an output of the graph."""
        declared = ["batch" if self.dynamic else self.batch, *dims]
        self.graph_outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, declared))

    def _rename(self, value, name):
        """Gives the last node's only output the graph output's name; true when that was possible."""
        if not self.nodes or list(self.nodes[-1].output) != [value]:
            return False
        self.nodes[-1].output[0] = name
        return True

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def normal(self, name, shape, std):
        return self.weight(name, self.rng(name).standard_normal(shape, dtype=np.float32) * np.float32(std))

    def uniform(self, name, shape, low, high):
        u = self.rng(name).random(shape, dtype=np.float32)
        return self.weight(name, np.float32(low) + u * np.float32(high - low))

    def filters(self, name, shape, std, axis):
        """Normal weights whose sum over `axis` (the reduction axes of one output) is zero."""
        w = self.rng(name).standard_normal(shape, dtype=np.float32)
        mean = w.mean(axis=axis, keepdims=True, dtype=np.float64).astype(np.float32)
        return self.weight(name, (w - mean) * np.float32(std))

    # --- nodes ------------------------------------------------------------------------------------------------
    def node(self, op, inputs, out=None, moments=None, **attributes):
        """Adds a one-output node; its moments default to those of its first input."""
        index = self._counts[op] = self._counts.get(op, -1) + 1
        name = f"{op}_{index}"
        out = out or f"{name}_out"
        self.nodes.append(helper.make_node(op, inputs, [out], name=name, **attributes))
        self.moments[out] = moments or self.moments.get(inputs[0] if inputs else "", (0.0, 1.0))
        return out

    def node_of_several(self, op, inputs, outs, **attributes):
        """Adds a node whose outputs have these names."""
        self.nodes.append(helper.make_node(op, inputs, outs, name=f"{op}_of_several", **attributes))

    def constant(self, array):
        return self.node("Constant", [], value=numpy_helper.from_array(np.asarray(array)))

    def conv(self, x, name, cin, cout, kernel, stride=1, pad=None, group=1, bias=False):
        """Conv of any spatial rank (`kernel` is a tuple), scaled to an output of variance one."""
        rank = len(kernel)
        pads = [k // 2 for k in kernel] if pad is None else list(pad)
        strides = list(stride) if isinstance(stride, (tuple, list)) else [stride] * rank
        fan_in = cin // group * math.prod(kernel)
        var_in = self.moments[x][1]
        std = round(math.sqrt(1.0 / (fan_in * var_in)), 8)
        shape = (cout, cin // group, *kernel)
        if fan_in > 1:
            inputs = [x, self.filters(f"{name}.weight", shape, std, tuple(range(1, rank + 2)))]
        else:
            inputs = [x, self.normal(f"{name}.weight", shape, std)]
        if bias:
            inputs.append(self.normal(f"{name}.bias", (cout,), 0.1))
        return self.node("Conv", inputs, moments=(0.0, 1.0), kernel_shape=list(kernel), strides=strides,
                         pads=pads + pads, dilations=[1] * rank, group=group)

    def batch_norm(self, x, name, channels, gain=1.0):
        """Inference batch norm; running statistics lie near the estimated ones but differ for every channel."""
        var = self.moments[x][1]
        inputs = [x, self.uniform(f"{name}.weight", (channels,), 0.8 * gain, 1.2 * gain),
                  self.uniform(f"{name}.bias", (channels,), -0.2, 0.2),
                  self.uniform(f"{name}.running_mean", (channels,), -0.2, 0.2),
                  self.uniform(f"{name}.running_var", (channels,), 0.7 * var, 1.3 * var)]
        return self.node("BatchNormalization", inputs, moments=(0.0, gain * gain), epsilon=1e-5, momentum=0.9,
                         training_mode=0)

    def relu(self, x):
        return self.node("Relu", [x], moments=clipped_moments(*self.moments[x]))

    def relu6(self, x):
        low, high = self.constant(np.float32(0)), self.constant(np.float32(6))
        return self.node("Clip", [x, low, high], moments=clipped_moments(*self.moments[x], 0.0, 6.0))

    def add(self, a, b):
        (ma, va), (mb, vb) = self.moments[a], self.moments[b]
        return self.node("Add", [a, b], moments=(ma + mb, va + vb))

    def max_pool(self, x, kernel, stride, pad):
        return self.node("MaxPool", [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                         dilations=[1, 1], ceil_mode=0)

    def gemm(self, x, name, cin, cout):
        """Fully connected layer as exporters write it: Gemm with transposed weights [cout, cin], centred unless cin is 1."""
        std = round(math.sqrt(1.0 / (cin * self.moments[x][1])), 8)
        weight, shape = f"{name}.weight", (cout, cin)
        weight = self.filters(weight, shape, std, (1,)) if cin > 1 else self.normal(weight, shape, std)
        inputs = [x, weight, self.normal(f"{name}.bias", (cout,), 0.1)]
        return self.node("Gemm", inputs, moments=(0.0, 1.0), alpha=1.0, beta=1.0, transB=1)

    # --- result -----------------------------------------------------------------------------------------------
    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.graph_inputs, self.graph_outputs, self.weights)
        model = helper.make_model(graph, producer_name="tilewright-models",
                                  opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION
        return model
