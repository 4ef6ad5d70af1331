"""The rows of the paper's table III, as printed, and which operators of our graph each of them is.

Words are 10^6, flop 2^30, times microseconds on a V100. Where a number of ours is another than the printed one, `because`
says why; encoder_tables.py fails where a difference has no reason, or a reason no difference.
"""
import dataclasses

CONTRACTION, NORMALIZATION, ELEMENTWISE = "contraction", "normalization", "elementwise"
QKV = "q.product+k.product+v.product"

STATISTICS = ("dW and dX normalize x again, each for itself: our two flop an element (subtract, multiply), of which the paper "
              "has one. Their operators in common are computed once and count once in the sum of the class, which makes the "
              "paper's .051 for both")
BACKWARD_SOFTMAX = ("of dropout and softmax: ours counts the product with the mask, too, which the paper's 5 flop an element "
                    "leave out (scale, product, sum, difference, product)")
ROW_STATISTICS = "mean and deviation of each row are results, too, .008 in all"
NOT_ITS_TENSORS = "the paper's words are not those of its tensors:"


@dataclasses.dataclass(frozen=True)
class Row:
    """`pick(flow)` gives numbers of operators. `draws`, `reads`: the paper's operator writes, reads a mask of this dropout,
    as large as its tensor; ours draws the same words again. Results of a row that is `part_of` the operators of a name are
    those that others need."""
    label: str
    of_class: str
    flop: float
    read: float
    written: float
    pytorch_us: float
    pick: object
    draws: str = ""
    reads: str = ""
    part_of: str = ""
    flop_because: str = ""
    words_because: str = ""


def named(*names):
    return lambda flow: [o for name in names for o in flow.named(name)]


def product(name):
    return lambda flow: flow.named(name, "matmul")


def of_weight(name, weight):
    """Of a gradient's products that which makes the weight's."""
    return lambda flow: [o for o in flow.named(name, "matmul") if o in flow.contractions_behind(f"{weight}.grad")]


def not_of_weight(name, weight):
    return lambda flow: [o for o in flow.named(name, "matmul") if o not in flow.contractions_behind(f"{weight}.grad")]


def by_size(name, number):
    """The product of that name which writes most (0), or second most (1)."""
    return lambda flow: sorted(flow.named(name, "matmul"), key=lambda o: -flow.operators[o]["words_written"])[number:number + 1]


def operator(name, *ops):
    return lambda flow: [o for op in ops for o in flow.named(name, op)]


def behind(name, *outputs):
    """Operators of that name which these outputs of the graph need."""
    return lambda flow: flow.needed_by([f"{o}.grad" for o in outputs], set(flow.named(name)))


def of_input(name):
    """Operators of that name which others need."""
    return lambda flow: flow.needed_by_others(set(flow.named(name)))


def residual(name):
    return operator(name, "add")


def rows():
    """In the order of the table."""
    c, n, e = CONTRACTION, NORMALIZATION, ELEMENTWISE
    return [
        Row("Q, K, V", c, 24, 7.3, 12.5, 333, product(QKV)),
        Row("Input bias", e, .012, 12.5, 12.5, 90, operator(QKV, "add")),
        Row("QKT", c, 4, 8.3, 33.5, 189, product("scores")),
        Row("Scaled softmax", n, .188, 33.5, 100.6, 453, named("softmax.scale", "softmax.softmax", "softmax.dropout"),
            draws="softmax.dropout"),
        Row("Gamma", c, 4, 37.7, 4.1, 142, product("gamma")),
        Row("Out", c, 8, 5.2, 4.1, 136, product("out.product")),
        Row("Output bias", e, .004, 4.1, 4.1, 34, named("out.add")),
        Row("Dropout", e, .004, 4.1, 8.3, 37, named("dropout1"), draws="dropout1"),
        Row("Residual", e, .004, 8.3, 4.1, 36, named("residual1")),
        Row("LayerNorm", n, .027, 4.1, 4.1, 63, named("norm1"), words_because=ROW_STATISTICS),
        Row("Linear", c, 32, 8.3, 16.7, 451, product("linear1.product")),
        Row("Bias", e, .016, 16.7, 16.7, 116, named("linear1.add")),
        Row("ReLU", e, 0, 16.7, 16.7, 112, named("relu")),
        Row("Dropout", e, .016, 16.7, 33.5, 120, named("dropout_hidden"), draws="dropout_hidden"),
        Row("Linear", c, 32, 20.9, 4.1, 449, product("linear2.product")),
        Row("Bias", e, .004, 4.1, 4.1, 35, named("linear2.add")),
        Row("Dropout", e, .004, 4.1, 8.3, 37, named("dropout2"), draws="dropout2"),
        Row("Residual", e, .004, 8.3, 4.1, 37, named("residual2")),
        Row("LayerNorm", n, .027, 8.3, 4.1, 63, named("norm2"),
            words_because=f"{NOT_ITS_TENSORS} it reads one, as the first LayerNorm does (4.1). {ROW_STATISTICS}"),
        Row("LayerNorm dW", n, .016, 8.3, 0, 184, behind("norm2.grad", "norm2.scale", "norm2.shift"),
            part_of="norm2.grad", flop_because=STATISTICS),
        Row("LayerNorm dX", n, .035, 8.3, 4.1, 78, of_input("norm2.grad"), part_of="norm2.grad",
            flop_because=STATISTICS),
        Row("Dropout dX", e, .004, 8.3, 4.1, 34, named("dropout2.grad"), reads="dropout2"),
        Row("Linear+Bias dX", c, 32, 8.3, 16.7, 427, not_of_weight("linear2.product.grad", "linear2.weight")),
        Row("Linear dW", c, 32, 20.9, 4.1, 424, of_weight("linear2.product.grad", "linear2.weight")),
        Row("Bias dW", n, .004, 4.1, 0, 24, named("linear2.add.grad")),
        Row("Dropout dX", e, .016, 33.5, 16.7, 129, named("dropout_hidden.grad"), reads="dropout_hidden"),
        Row("ReLU dX", e, 0, 33.5, 16.7, 166, named("relu.grad")),
        Row("Bias dW", n, .016, 16.7, 0, 61, named("linear1.add.grad")),
        Row("Linear+Bias dX", c, 32, 20.9, 4.1, 417, not_of_weight("linear1.product.grad", "linear1.weight")),
        Row("Linear dW", c, 32, 20.9, 4.1, 437, of_weight("linear1.product.grad", "linear1.weight")),
        Row("Residual", e, .004, 8.3, 4.1, 36, residual("linear1.product.grad")),
        Row("LayerNorm dW", n, .016, 8.3, 0, 186, behind("norm1.grad", "norm1.scale", "norm1.shift"),
            part_of="norm1.grad", flop_because=STATISTICS),
        Row("LayerNorm dX", n, .035, 8.3, 4.1, 80, of_input("norm1.grad"), part_of="norm1.grad",
            flop_because=STATISTICS),
        Row("Dropout dX", e, .004, 8.3, 4.1, 34, named("dropout1.grad"), reads="dropout1"),
        Row("Output bias dW", n, .004, 4.1, 0, 23, named("out.add.grad")),
        Row("Out dX", c, 8, 4.3, 4.1, 131, not_of_weight("out.product.grad", "out.weight"),
            words_because=f"{NOT_ITS_TENSORS} a gradient of 4.1 and a weight of 1.0, as Out"),
        Row("Out dW", c, 8, 8.3, 1.0, 136, of_weight("out.product.grad", "out.weight")),
        Row("Gamma dX1", c, 4, 8.3, 33.5, 136, by_size("gamma.grad", 0)),
        Row("Gamma dX2", c, 4, 67.1, 33.5, 188, by_size("gamma.grad", 1),
            words_because=f"{NOT_ITS_TENSORS} alpha of 33.5 and a gradient of 4.1 give one of 4.1"),
        Row("Scaled softmax dX", n, .156, 12.5, 4.1, 790,
            named("softmax.dropout.grad", "softmax.softmax.grad", "softmax.scale.grad"), reads="softmax.dropout",
            flop_because=BACKWARD_SOFTMAX,
            words_because=f"{NOT_ITS_TENSORS} gradient, softmax and mask have 33.5 each, not the 4.1 of a token's"),
        Row("QKT dX1", c, 4, 37.7, 4.1, 135, by_size("scores.grad", 0)),
        Row("QKT dX2", c, 4, 37.7, 4.1, 139, by_size("scores.grad", 1)),
        Row("Q, K, V dX", c, 24, 15.7, 4.1, 344, not_of_weight(f"{QKV}.grad", "q.weight")),
        Row("Q, K, V dW", c, 24, 20.4, 1.0, 329, of_weight(f"{QKV}.grad", "q.weight"),
            words_because=f"{NOT_ITS_TENSORS} x of 4.1 and a gradient of 12.5 give one of three weights, 3.1"),
        Row("Input bias dW", n, .012, 12.5, 0, 52, operator(f"{QKV}.grad", "reduce_sum")),
        Row("Residual", e, .004, 8.3, 4.1, 35, residual(f"{QKV}.grad")),
    ]


# Of the classes: what ours has more, the flop of this operator, and why.
MORE = {NORMALIZATION: ("softmax.dropout.grad", BACKWARD_SOFTMAX)}
# Of the classes: flop, microseconds of PyTorch and of the paper's kernels.
CLASSES = {CONTRACTION: (312, 4951, 4411), NORMALIZATION: (.535, 2063, 1591), ELEMENTWISE: (.098, 1096, 735)}
# Table I: shares of flop and of PyTorch's time.
SHARES = {CONTRACTION: (99.80, 61.0), NORMALIZATION: (0.17, 25.5), ELEMENTWISE: (0.03, 13.5)}
# Table II: microseconds of the projections.
PROJECTIONS = {"unfused": (345, 342), "QK fused": (294, 312), "QKV fused": (275, 291)}
