#!/usr/bin/env python3
"""contrib_test.py NODE_TESTS BACKEND: operators of onnxruntime's own domain, one node a model, against onnxruntime.

Writes each model with seeded inputs and onnxruntime's outputs as the onnx package's back-end tests are, and runs NODE_TESTS on
them. Exit code 77 where onnx or onnxruntime is missing.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"not run: {error}")
    sys.exit(77)

MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(7)


def f32(*shape, low=-1.0, high=1.0):
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def u8(*shape):
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


def scale(value):
    return np.array(value, np.float32)


def zero(value, kind=np.uint8):
    return np.array(value, kind)


class Case:
    """One node: `inputs` by position (None: absent; those of `weights` are initializers), `outputs` is how many, or which.

    `like`: a case whose outputs are the same, where onnxruntime's CPU provider does not have this one.
    """

    def __init__(self, name, op, inputs, outputs=1, weights=(), domain=MICROSOFT, like=None, **attributes):
        self.name = name
        self.like = like or self
        names = [f"x{k}" if x is not None else "" for k, x in enumerate(inputs)]
        wanted = range(outputs) if isinstance(outputs, int) else outputs
        written = [f"y{k}" if k in wanted else "" for k in range(max(wanted) + 1)]
        node = helper.make_node(op, names, written, name="node", domain=domain, **attributes)
        given = {f"x{k}": x for k, x in enumerate(inputs) if x is not None}
        constants = [numpy_helper.from_array(given[f"x{k}"], f"x{k}") for k in weights]
        self.feeds = {key: x for key, x in given.items() if int(key[1:]) not in weights}
        infos = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                 for key, x in self.feeds.items()]
        results = [helper.make_empty_tensor_value_info(text) for text in written if text]
        graph = helper.make_graph([node], "contrib", infos, results, constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def run(self):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, self.feeds)

    def write(self, root):
        results = self.like.run()
        for info, array in zip(self.model.graph.output, results):
            info.CopyFrom(helper.make_tensor_value_info(info.name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        folder = root / "node" / self.name / "test_data_set_0"
        folder.mkdir(parents=True)
        onnx.save(self.model, folder.parent / "model.onnx")
        for stem, arrays in (("input", self.feeds.values()), ("output", results)):
            for k, array in enumerate(arrays):
                (folder / f"{stem}_{k}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def norms():
    x, skip, gamma, beta, bias = f32(2, 5, 24), f32(2, 5, 24), f32(24), f32(24), f32(24)
    yield Case("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta, bias], [0, 3], epsilon=1e-5)
    yield Case("skip_layer_norm_plain", "SkipLayerNormalization", [x, skip, gamma])
    yield Case("skip_layer_norm_one_skip", "SkipLayerNormalization", [x, skip[:1], gamma, beta])
    yield Case("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], [0, 3], epsilon=1e-6)
    yield Case("skip_rms_norm_plain", "SkipSimplifiedLayerNormalization", [x, skip, gamma])
    yield Case("rms_norm", "SimplifiedLayerNormalization", [x, gamma], domain="", axis=-1, epsilon=1e-6)
    ids = RANDOM.integers(0, 11, (3, 7)).astype(np.int32)
    segments = RANDOM.integers(0, 2, (3, 7)).astype(np.int32)
    tables = [f32(11, 24), f32(9, 24), f32(2, 24)]
    mask = (np.arange(7)[None] < np.array([[7], [4], [1]])).astype(np.int32)
    yield Case("embed_layer_norm", "EmbedLayerNormalization", [ids, segments, *tables, gamma, beta, mask], 3, epsilon=1e-6)
    yield Case("embed_layer_norm_no_segments", "EmbedLayerNormalization", [ids, None, *tables[:2], None, gamma, beta], 2)
    places = RANDOM.integers(0, 9, (3, 7)).astype(np.int32)
    yield Case("embed_layer_norm_places", "EmbedLayerNormalization",
               [ids, segments, *tables, gamma, beta, mask, places], 2)


def packed_bits(count, bits, *shape):
    return u8(*shape, count * bits // 8)


def maths():
    x, bias = f32(3, 5, 17, low=-4, high=4), f32(17)
    yield Case("bias_gelu", "BiasGelu", [x, bias])
    yield Case("fast_gelu", "FastGelu", [x])
    yield Case("fast_gelu_bias", "FastGelu", [x, bias])
    yield Case("quick_gelu", "QuickGelu", [x])
    yield Case("quick_gelu_alpha", "QuickGelu", [x], alpha=0.7)
    yield Case("fused_matmul", "FusedMatMul", [f32(2, 5, 7), f32(2, 7, 3)], alpha=0.5)
    yield Case("fused_matmul_both", "FusedMatMul", [f32(2, 7, 5), f32(3, 7)], transA=1, transB=1, alpha=-2.0)
    yield Case("fused_matmul_b", "FusedMatMul", [f32(2, 3, 5, 7), f32(2, 3, 9, 7)], transB=1)
    yield Case("transpose_matmul", "TransposeMatMul", [f32(7, 5), f32(7, 3)], transA=1)
    image, kernels, sums = f32(2, 4, 9, 7), f32(6, 4, 3, 3), f32(6)
    beside = f32(2, 6, 7, 5)
    yield Case("fused_conv", "FusedConv", [image, kernels, sums], activation="Relu")
    for name, params in (("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.4])):
        yield Case(f"fused_conv_{name.lower()}", "FusedConv", [image, kernels, sums, beside], activation=name,
                   activation_params=params or None)
    yield Case("fused_gemm", "FusedGemm", [f32(3, 7), f32(5, 7), f32(5)], activation="LeakyRelu", activation_alpha=0.2,
               transB=1, alpha=0.5, beta=0.3)
    for bits, k, n, block in ((4, 64, 7, 32), (4, 40, 5, 16), (8, 64, 6, 32)):
        blocks = -(-k // block)
        weights = packed_bits(block, bits, n, blocks)
        scales = f32(n, blocks, low=0.01, high=0.1)
        zeros = u8(n, -(-blocks * bits // 8))
        shape = {"K": k, "N": n, "bits": bits, "block_size": block}
        tail = f"{bits}_{k}"
        yield Case(f"matmul_nbits_{tail}", "MatMulNBits", [f32(2, 3, k), weights, scales], weights=(1, 2), **shape)
        yield Case(f"matmul_nbits_zeros_{tail}", "MatMulNBits", [f32(3, k), weights, scales, zeros], weights=(1, 2, 3), **shape)
        yield Case(f"matmul_nbits_bias_{tail}", "MatMulNBits", [f32(3, k), weights, scales, None, None, f32(n)],
                   weights=(1, 2, 5), **shape)


def quantized():
    x, y = u8(2, 3, 7, 9), u8(2, 3, 7, 9)
    a, b, out = (scale(0.031), zero(121)), (scale(0.017), zero(7)), (scale(0.043), zero(99))
    yield Case("qlinear_add", "QLinearAdd", [x, *a, y, *b, *out])
    yield Case("qlinear_add_broadcast", "QLinearAdd", [x, *a, y[:1, :, :1], *b, *out])
    signed = [x.astype(np.int8), a[0], zero(-3, np.int8), y.astype(np.int8), b[0], zero(5, np.int8), out[0], zero(1, np.int8)]
    yield Case("qlinear_add_signed", "QLinearAdd", signed)
    yield Case("qlinear_mul", "QLinearMul", [x, *a, y, *b, *out])
    yield Case("qlinear_sigmoid", "QLinearSigmoid", [x, *a, scale(1 / 256), zero(0)])
    yield Case("qlinear_leaky_relu", "QLinearLeakyRelu", [x, *a, *out], alpha=0.2)
    yield Case("qlinear_average_pool", "QLinearAveragePool", [x, *a, *b], kernel_shape=[3, 2], strides=[2, 1])
    yield Case("qlinear_average_pool_pads", "QLinearAveragePool", [x, *a, *b], kernel_shape=[3, 3], pads=[1, 1, 1, 1],
               count_include_pad=1)
    yield Case("qlinear_global_average_pool", "QLinearGlobalAveragePool", [x, *a, *b])
    yield Case("qlinear_global_average_pool_last", "QLinearGlobalAveragePool", [x, *a, *b], channels_last=1)
    yield Case("qlinear_concat", "QLinearConcat", [*out, x, *a, y[:, :2], *b, x[:, :1], *b], axis=-3)
    yield Case("qlinear_where", "QLinearWhere", [RANDOM.integers(0, 2, (3, 7, 9)).astype(bool), x, *a, y, *b, *out])
    rows, columns = u8(5, 12), RANDOM.integers(-64, 64, (12, 7), dtype=np.int8)
    of_columns = [scale(0.02), zero(0, np.int8)]
    sums = RANDOM.integers(-500, 500, 7).astype(np.int32)
    yield Case("qgemm", "QGemm", [rows, *a, columns, *of_columns, sums, scale(0.3), zero(99)])
    yield Case("qgemm_columns", "QGemm", [rows, *a, columns.T.copy(), f32(7, low=0.01, high=0.1), np.zeros(7, np.int8), sums,
                                          scale(0.3), zero(99)], transB=1, alpha=0.7)
    yield Case("qgemm_floats", "QGemm", [rows, *a, columns, scale(0.02), zero(3, np.int8)])
    yield Case("matmul_integer_to_float", "MatMulIntegerToFloat",
               [rows, columns, scale(0.03), f32(7, low=0.01, high=0.1), zero(121), np.zeros(7, np.int8), f32(7)])
    yield Case("matmul_integer_to_float_plain", "MatMulIntegerToFloat", [rows, columns, scale(0.03), scale(0.01)])
    yield Case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [f32(2, 5, 12), columns, scale(0.02), zero(3, np.int8), f32(7)])
    yield Case("quantize", "QuantizeLinear", [f32(3, 5), *a])
    yield Case("dequantize", "DequantizeLinear", [rows, *a])
    soft = [x[:, :, 0], *a, scale(1 / 256), zero(0)]
    yield Case("qlinear_softmax", "QLinearSoftmax", soft, axis=-1, opset=13)
    yield Case("qlinear_softmax_flat", "QLinearSoftmax", soft, axis=2, opset=11)


def attention():
    heads, size, length = 3, 8, 6
    wide = heads * size
    x, w, b = f32(2, length, wide), f32(wide, 3 * wide), f32(3 * wide)
    yield Case("attention", "Attention", [x, w, b], num_heads=heads)
    yield Case("attention_causal", "Attention", [x, w, b], 2, num_heads=heads, unidirectional=1)
    lengths = np.array([4, 6], np.int32)
    mask = (np.arange(length)[None] < lengths[:, None]).astype(np.int32)
    yield Case("attention_lengths", "Attention", [x, w, b, lengths], num_heads=heads)
    yield Case("attention_mask", "Attention", [x, w, b, mask], num_heads=heads)
    yield Case("attention_mask_of_queries", "Attention", [x, w, b, np.repeat(mask[:, None], length, 1)], num_heads=heads)
    past = f32(2, 2, heads, 5, size)
    yield Case("attention_past", "Attention", [x, w, b, None, past], 2, num_heads=heads, unidirectional=1)
    bias = f32(2, heads, length, length)
    yield Case("attention_bias", "Attention", [x, w, b, None, None, bias], num_heads=heads, scale=0.2)
    sizes = [wide, wide, 2 * wide]
    yield Case("attention_sizes", "Attention", [x, f32(wide, 4 * wide), f32(4 * wide)], num_heads=heads, qkv_hidden_sizes=sizes)
    q, k, v = f32(2, length, wide), f32(2, 9, wide), f32(2, 9, wide)
    name = "MultiHeadAttention"
    yield Case("mha", name, [q, k, v], num_heads=heads)
    yield Case("mha_bias", name, [q, k, v, f32(3 * wide)], num_heads=heads, scale=0.3)
    keys = (np.arange(9)[None] < np.array([[9], [5]])).astype(np.int32)
    yield Case("mha_mask", name, [q, k, v, None, keys], num_heads=heads)
    yield Case("mha_scores_bias", name, [q, k, v, None, None, f32(1, heads, length, 9)], num_heads=heads)
    yield Case("mha_causal", name, [q, q * 2, q * 3], num_heads=heads, unidirectional=1)
    apart = Case("mha_apart", name, [q, q * 2, q * 3], num_heads=heads)
    packed = np.stack([(q * n).reshape(2, length, heads, size) for n in (1, 2, 3)], 3)
    yield Case("mha_packed", name, [packed], like=apart, num_heads=heads)
    yield Case("mha_packed_keys", name, [q, packed[:, :, :, 1:]], like=apart, num_heads=heads)
    yield Case("mha_cross", name, [q, f32(2, heads, 9, size), f32(2, heads, 9, size)], num_heads=heads)
    old = [f32(2, heads, 4, size), f32(2, heads, 4, size)]
    yield Case("mha_past", name, [q, q * 2, q * 3, None, None, None, *old], 3, num_heads=heads)
    yield from grouped()
    cos, sin = f32(20, size // 2), f32(20, size // 2)
    places = RANDOM.integers(0, 20, (2, length)).astype(np.int64)
    yield Case("rotary", "RotaryEmbedding", [x, places, cos, sin])
    yield Case("rotary_interleaved", "RotaryEmbedding", [x, np.array([3], np.int64), cos, sin], interleaved=1)
    yield Case("rotary_heads_first", "RotaryEmbedding", [f32(2, heads, length, size), places, cos, sin])
    yield Case("rotary_part", "RotaryEmbedding", [x, places, cos[:, :2], sin[:, :2]], num_heads=heads, rotary_embedding_dim=4)


def quantized_attention():
    heads, length, wide = 3, 6, 24
    # Weights of 7 bits: without VNNI onnxruntime sums pairs of products in 16 bits, which saturate.
    x, w, bias = u8(2, length, wide), RANDOM.integers(-64, 64, (wide, 3 * wide), dtype=np.int8), f32(3 * wide)
    scales = [np.array(0.02, np.float32), np.array(0.005, np.float32)]
    points = [zero(117), zero(3, np.int8)]
    name, rest = "QAttention", {"weights": (1, 4, 7), "num_heads": heads}
    yield Case("qattention", name, [x, w, bias, *scales, None, *points], **rest)
    lengths = np.array([4, 6], np.int32)
    yield Case("qattention_lengths", name, [x, w, bias, *scales, lengths, *points], **rest)
    past = f32(2, 2, heads, 5, wide // heads)
    yield Case("qattention_past", name, [x, w, bias, *scales, None, *points, past], 2, unidirectional=1, **rest)
    columns = [w, bias, scales[0], f32(3 * wide, low=0.001, high=0.01), None, points[0], np.zeros(3 * wide, np.int8)]
    yield Case("qattention_columns", name, [x, *columns], **rest)


def recurrent():
    """Weights of 8 bits against the same as floats: onnxruntime's quantizes the states, too, which loses a percent."""
    steps, batch, inputs, hidden = 5, 2, 7, 6
    for directions, direction in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
        x = f32(steps, batch, inputs)
        for columns in (False, True):
            w, r = (u8(directions, n, 4 * hidden) for n in (inputs, hidden))
            shape = (directions, 4 * hidden) if columns else (directions,)
            scales, points = [f32(*shape, low=0.002, high=0.01) for _ in "wr"], [u8(*shape) for _ in "wr"]
            real = []
            for q, s, p in zip((w, r), scales, points):
                s, p = (a.reshape(directions, 1, -1) for a in (s, p))
                real.append(((q.astype(np.float32) - p.astype(np.float32)) * s).transpose(0, 2, 1).copy())
            bias = f32(directions, 8 * hidden)
            rest = {"hidden_size": hidden, "direction": direction}
            like = Case("lstm", "LSTM", [x, *real, bias], 3, domain="", **rest)
            given = [x, w, r, bias, None, None, None, None, scales[0], points[0], scales[1], points[1]]
            yield Case(f"dynamic_quantize_lstm_{direction}{'_columns' if columns else ''}", "DynamicQuantizeLSTM", given, 3,
                       weights=(1, 2, 8, 9, 10, 11), like=like, **rest)


def grouped():
    name, shape = "GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2}
    size, length = 16, 6
    q, k, v = f32(2, length, 4 * size), f32(2, length, 2 * size), f32(2, length, 2 * size)
    whole, total = np.array([length - 1] * 2, np.int32), np.array(length, np.int32)
    tables = [f32(32, size // 2), f32(32, size // 2)]
    yield Case("gqa", name, [q, k, v, None, None, whole, total], 3, weights=(6,), **shape)
    yield Case("gqa_rotary", name, [q, k, v, None, None, whole, total, *tables], 3, weights=(6,), do_rotary=1, **shape)
    yield Case("gqa_rotary_interleaved", name, [q, k, v, None, None, whole, total, *tables], 3, weights=(6,), do_rotary=1,
               rotary_interleaved=1, **shape)
    yield Case("gqa_packed", name, [np.concatenate([q, k, v], 2), None, None, None, None, whole, total], 3, weights=(6,),
               softcap=2.0, scale=0.7, **shape)
    past = [f32(2, 2, 5, size), f32(2, 2, 5, size)]
    one = [q[:, :1], k[:, :1], v[:, :1], *past, np.array([5, 5], np.int32), np.array(6, np.int32)]
    for window in (1, 3, 6):
        rest = {"local_window_size": window, **shape}
        yield Case(f"gqa_window_{window}", name, [q, k, v, None, None, whole, total], 3, weights=(6,), **rest)
        yield Case(f"gqa_past_window_{window}", name, one, 3, weights=(5, 6), **rest)
    yield Case("gqa_past", name, one, 3, weights=(5, 6), **shape)
    yield Case("gqa_past_rotary", name, [*one, *tables], 3, weights=(5, 6), do_rotary=1, **shape)


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        written = 0
        for family in (norms, maths, quantized, attention, quantized_attention, recurrent):
            for case in family():
                case.write(root)
                written += 1
        command = [sys.argv[1], folder, "--backend", sys.argv[2], "--jobs", "2", "--list", "/dev/null", *sys.argv[3:]]
        print(f"{written} models with outputs of onnxruntime {onnxruntime.__version__}", flush=True)
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
