"""Small models of every family of operators, at shapes with and without tails: what a target's schedules must get right.

Specifications as operators.py takes them. Sizes are chosen so that a GPU's tiles (up to 256 rows or columns, 64 steps)
are full, cut off, and smaller than one; and so that the f64 reference takes well under a second.
"""
from . import operators

MATMULS = [(1, 1, 1), (1, 256, 128), (17, 9, 13), (64, 64, 64), (128, 256, 64), (130, 70, 40), (256, 128, 512),
           (300, 200, 100), (33, 1000, 65)]  # m, n, k
BATCHED = [([3, 17, 20], 9), ([2, 4, 64, 32], 64), ([12, 128, 64], 128), ([5, 1, 40], 33)]  # left operand, n
TOKENS = [("ReduceMean", [12, 128, 64], 192), ("ReduceMax", [4, 256, 64], 200)]  # reduced over the second axis; n
# name, batch, cin, cout, sides, kernel and what differs
CONVS = [
    ("1x1", 2, 64, 128, [14, 14], [1, 1], {}),
    ("1x1_odd", 1, 37, 29, [7, 9], [1, 1], {}),
    ("1x1_stride", 2, 32, 64, [14, 14], [1, 1], {"stride": [2, 2], "pad": [0, 0]}),
    ("3x3", 2, 64, 64, [14, 14], [3, 3], {}),
    ("3x3_rgb", 2, 3, 32, [33, 31], [3, 3], {"stride": [2, 2]}),
    ("3x3_odd", 3, 46, 18, [13, 11], [3, 3], {}),
    ("3x3_no_pad", 1, 16, 24, [10, 10], [3, 3], {"pad": [0, 0]}),
    ("3x3_bias_relu", 2, 32, 64, [15, 15], [3, 3], {"bias": True, "activation": "Relu"}),
    ("7x7_stride", 1, 3, 64, [56, 56], [7, 7], {"stride": [2, 2]}),
    ("1x7", 1, 24, 32, [12, 17], [1, 7], {}),
    ("dilated", 1, 16, 32, [20, 20], [3, 3], {"dilation": [2, 2], "pad": [2, 2]}),
    ("groups", 2, 64, 64, [14, 14], [3, 3], {"group": 4}),
    ("groups_odd", 1, 30, 20, [9, 9], [3, 3], {"group": 5}),
    ("groups_of_3", 2, 15, 15, [9, 11], [3, 3], {"group": 5}),
    ("groups_of_4", 2, 32, 32, [14, 14], [3, 3], {"group": 8, "bias": True, "activation": "Relu"}),
    ("groups_of_8_stride", 2, 64, 64, [15, 13], [3, 3], {"group": 8, "stride": [2, 2]}),
    ("groups_of_16_no_pad", 1, 64, 64, [12, 12], [3, 3], {"group": 4, "pad": [0, 0]}),
    ("depthwise", 2, 96, 96, [14, 14], [3, 3], {"group": 96}),
    ("depthwise_stride", 1, 33, 33, [15, 15], [5, 5], {"group": 33, "stride": [2, 2]}),
    ("transposed", 1, 32, 16, [9, 9], [4, 4], {"transposed": True, "stride": [2, 2], "pad": [1, 1]}),
    ("1d", 2, 20, 40, [50], [3], {}),
    ("3d", 1, 16, 24, [6, 9, 9], [3, 3, 3], {}),
    # Whose pixels a GPU's tiles combine: of an image, in parts of one.
    ("mean", 64, 16, 72, [7, 7], [3, 3], {"bias": True, "activation": "Relu", "reduced": ["ReduceMean", [2, 3]]}),
    ("mean_parts", 32, 8, 24, [14, 14], [3, 3], {"bias": True, "reduced": ["ReduceMean", [2, 3]]}),
]
SQUARES = [[7, 7], [32, 32], [64, 64], [130, 130], [3, 48, 48]]  # of x x and x x + x
OF_ITSELF = [[5, 9], [64, 96], [130, 70], [256, 512], [3, 40, 24]]  # of x x^T, x^T x and softmax(x x^T) x
ATTENTION = [([2, 3, 130, 64], 700, None), ([1, 2, 640, 32], 640, "causal"), ([1, 4, 651, 80], 651, "window"),
             ([2, 2, 600, 128], 600, "added"), ([1, 2, 96, 40], 904, "guarded")]  # shape, keys, mask
# Of few queries, whose heads share keys: shape, keys, mask, heads of keys.
DECODING = [([2, 6, 1, 64], 1000, None, 6), ([1, 8, 1, 64], 1000, "added", 2), ([2, 8, 5, 72], 777, "guarded", 4),
            ([1, 8, 3, 128], 1501, "causal", 2), ([1, 6, 2, 40], 333, None, 1), ([3, 4, 1, 96], 77, None, 4),
            ([1, 16, 4, 32], 600, "added", 1)]
# Of products one after the other: rows and widths; sides, kernel and stride of a convolution, and channels.
CHAINS = [([300], [64, 48, 24]), ([777], [72, 40, 96]), ([2050], [256, 64, 64, 16]), ([3001], [64, 128, 264]),
          ([333], [4, 1, 4]), ([5], [240, 10, 240]), ([16], [672, 28, 672]), ([3], [37, 9, 50, 11]), ([40, 40, 3, 1], [64, 64, 64]), ([45, 43, 3, 2], [48, 48, 48]),
          ([99, 97, 3, 2], [3, 48, 40]), ([40, 41, 3, 1], [64, 64, 48, 64]), ([39, 39, 3, 1], [64, 64, 136])]
CONVS_OF_ITSELF = [([5, 3, 4, 6], [1, 1]), ([16, 16, 5, 5], [2, 2]), ([8, 32, 12], [0])]  # shape, padding
REDUCED = [([64, 1000], [1]), ([3, 5, 7], [0, 2]), ([2, 64, 14, 14], [2, 3]), ([128, 33], [0]), ([4, 4096], [1]),
           ([70_000], [0])]  # shape, axes
ROWS = [[128, 768], [33, 1000], [4, 12, 64, 64], [7, 5], [2, 9000]]  # of softmax and layer norm, over the last axis
TRANSPOSES = [([64, 96], [1, 0]), ([33, 65], [1, 0]), ([2, 64, 14, 14], [0, 2, 3, 1]), ([2, 14, 15, 37], [0, 3, 1, 2]),
              ([4, 128, 12, 64], [0, 2, 1, 3])]  # shape, permutation
POOLS = [("MaxPool", [2, 64, 14, 14], [2, 2], [2, 2], [0, 0]), ("MaxPool", [1, 33, 15, 13], [3, 3], [2, 2], [1, 1]),
         ("AveragePool", [2, 48, 9, 9], [3, 3], [1, 1], [1, 1])]
RESIZES = [("nearest", [1, 16, 7, 9], [2.0, 2.0]), ("linear", [1, 16, 7, 9], [2.0, 2.0]),
           ("linear", [2, 5, 12, 12], [0.5, 1.5]), ("cubic", [1, 8, 9, 9], [2.0, 2.0])]
OUTPUTS = [("activation", [130, 72], 64), ("activation", [64, 256], 128), ("activation", [33, 31], 17),
           ("means", [12, 128, 192], 64), ("norm", [128, 768], None), ("norm", [33, 1000], None), ("norm", [5, 9], None),
           ("sums", [1024, 96], None), ("sums", [96, 130], None), ("sums", [4, 256, 33], None),
           ("siblings", [33, 65], None)]  # kind, shape of the largest output, length of a contraction's sums
WIDTHS = [[1], [1027], [33, 65], [2, 16, 56, 56]]  # of element-wise operators


def _text(extents):
    return "x".join(map(str, extents))


def contractions():
    for m, n, k in MATMULS:
        yield {"name": f"matmul_{m}x{n}x{k}", "op": "matmul", "shape": [m, k], "n": n}
    for shape, n in BATCHED:
        yield {"name": f"batch_matmul_{_text(shape)}x{n}", "op": "batch_matmul", "shape": shape, "n": n}
    for kind, shape, n in TOKENS:
        yield {"name": f"{kind.lower()}_of_matmul_{_text(shape)}x{n}", "op": "matmul", "shape": shape, "n": n,
               "bias": True, "activation": "Gelu", "reduced": [kind, [1]]}
    for name, batch, cin, cout, sides, kernel, more in CONVS:
        yield {"name": f"conv_{name}", "op": "conv", "batch": batch, "cin": cin, "cout": cout, "in": sides,
               "kernel": kernel, **more}


def reductions():
    for shape, axes in REDUCED:
        for kind in ("ReduceSum", "ReduceMean", "ReduceMax"):
            yield {"name": f"{kind.lower()}_{_text(shape)}_{_text(axes)}", "op": "reduce", "kind": kind, "shape": shape,
                   "axes": axes}
    for shape in ROWS:
        for kind in ("Softmax", "LayerNormalization"):
            yield {"name": f"{kind.lower()}_{_text(shape)}", "op": "reduce", "kind": kind, "shape": shape, "axes": [-1]}
    for kind, shape, kernel, stride, pad in POOLS:
        yield {"name": f"{kind.lower()}_{_text(shape)}", "op": "pool", "kind": kind, "shape": shape, "kernel": kernel,
               "stride": stride, "pad": pad}


def data_movement():
    for shape, perm in TRANSPOSES:
        yield {"name": f"transpose_{_text(shape)}_{_text(perm)}", "op": "transpose", "shape": shape, "perm": perm}
    for shape, count in (([100, 64], 33), ([7, 5, 3], 20)):
        yield {"name": f"gather_{_text(shape)}_{count}", "op": "gather", "shape": shape, "count": count}
    for shapes, axis in (([[2, 16, 7, 7], [2, 5, 7, 7]], 1), ([[3, 17], [4, 17], [1, 17]], 0), ([[9, 8], [9, 3]], 1)):
        yield {"name": f"concat_{'_'.join(map(_text, shapes))}", "op": "concat", "shapes": shapes, "axis": axis}
    for kind, shape, scales in RESIZES:
        yield {"name": f"resize_{kind}_{_text(shape)}", "op": "resize", "kind": kind, "shape": shape, "scales": scales}


def elementwise():
    for kind in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "HardSwish", "Softplus", "Add", "Div"):
        yield {"name": f"{kind.lower()}_33x65", "op": "elementwise", "kind": kind, "shape": [33, 65]}
    for shape in WIDTHS:
        yield {"name": f"mul_{_text(shape)}", "op": "elementwise", "kind": "Mul", "shape": shape}


def chains():
    for at, widths in CHAINS:
        stages = [{"op": "matmul", "n": n} if len(at) == 1 else {"op": "conv", "cout": n, "kernel": [1, 1]}
                  for n in widths[1:]]
        if len(at) == 1:
            stages[0]["shape"] = [*at, widths[0]]
        else:
            *sides, kernel, stride = at
            stages[0] |= {"cin": widths[0], "in": sides, "kernel": [kernel] * 2, "stride": [stride] * 2}
        yield {"name": f"chain_{_text(at)}_{_text(widths)}", "op": "chain", "batch": 2, "stages": stages}


def one_value():
    """Every operator of two inputs of one type, with one value as both."""
    for kind, shapes in (("square", SQUARES), ("residual", SQUARES), ("gram", OF_ITSELF), ("covariance", OF_ITSELF),
                         ("attention", OF_ITSELF)):
        for shape in shapes:
            yield {"name": f"{kind}_of_itself_{_text(shape)}", "op": "matmul_of_itself", "kind": kind, "shape": shape}
    for shape, pad in CONVS_OF_ITSELF:
        yield {"name": f"conv_of_itself_{_text(shape)}", "op": "conv_of_itself", "shape": shape, "pad": pad}
    for kind in operators.BINARY:
        yield {"name": f"{kind.lower()}_of_itself_33x65", "op": "elementwise", "kind": kind, "shape": [33, 65],
               "one_value": True}
    for shape, axis in (([3, 17], 0), ([2, 5, 7, 7], 1)):
        yield {"name": f"concat_of_itself_{_text(shape)}", "op": "concat", "shapes": [shape, shape], "axis": axis,
               "one_value": True}


def attention():
    for shape, keys, mask in ATTENTION:
        yield {"name": f"attention_{mask or 'all'}_{_text(shape)}_{keys}", "op": "attention", "shape": shape,
               "keys": keys, "mask": mask}
    for shape, keys, mask, key_heads in DECODING:
        yield {"name": f"attention_{mask or 'all'}_{_text(shape)}_{keys}_of_{key_heads}", "op": "attention",
               "shape": shape, "keys": keys, "mask": mask, "key_heads": key_heads}


def several_outputs():
    for kind, shape, k in OUTPUTS:
        yield {"name": f"outputs_{kind}_{_text(shape)}", "op": "outputs", "kind": kind, "shape": shape,
               **({"k": k} if k else {})}


def specs():
    return [*contractions(), *reductions(), *data_movement(), *elementwise(), *chains(), *one_value(), *attention(),
            *several_outputs()]
