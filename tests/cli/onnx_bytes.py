"""ONNX models as bytes, with nothing but the standard library: for tests of the command that need small and wrong models.

Field numbers: onnx.proto. A message is a list of (field, value); a value is an int (varint), bytes, str, or a message.
"""
import struct

F32, I64 = 1, 7
EXTERNAL = 1


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        data = value.encode() if isinstance(value, str) else message(value) if isinstance(value, list) else value
        out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def value_info(name, shape, dtype=F32):
    """`shape`: extents, or names of symbolic dimensions."""
    dims = [(1, [(1 if isinstance(d, int) else 2, d)]) for d in shape]
    return [(1, name), (2, [(1, [(1, dtype), (2, dims)])])]


def tensor(name, shape, values, dtype=F32):
    raw = struct.pack(f"<{len(values)}{'f' if dtype == F32 else 'q'}", *values)
    return [*((1, d) for d in shape), (2, dtype), (8, name), (9, raw)]


def external_tensor(name, shape, location, offset=0, length=None):
    entries = {"location": location, "offset": str(offset)} | ({"length": str(length)} if length is not None else {})
    return [*((1, d) for d in shape), (2, F32), (8, name), *((13, [(1, k), (2, v)]) for k, v in entries.items()), (14, EXTERNAL)]


def node(op, inputs, outputs, name="", attributes=(), domain=""):
    """`attributes`: pairs of a name and an int or a list of them."""
    attrs = [(5, [(1, key), (3, value), (20, 2)] if isinstance(value, int) else [(1, key), *((8, v) for v in value), (20, 7)]) for key, value in attributes]
    return [*((1, i) for i in inputs), *((2, o) for o in outputs), (3, name), (4, op), *attrs, (7, domain)]


def model(nodes, inputs, outputs, initializers=(), opset=17, name="g"):
    graph = [*((1, n) for n in nodes), (2, name), *((5, t) for t in initializers), *((11, v) for v in inputs), *((12, v) for v in outputs)]
    return message([(1, 8), (2, "tests"), (7, graph), (8, [(1, ""), (2, opset)])])


def dense(m=4, k=3, n=5, batch=None):
    """relu(x w + b) with small integer weights: w[i] = i % 5 - 1, b[j] = j - 2. `batch` names the first dimension."""
    w = [i % 5 - 1 for i in range(k * n)]
    nodes = [node("MatMul", ["x", "w"], ["m"], "MatMul_0"), node("Add", ["m", "b"], ["a"], "Add_0"), node("Relu", ["a"], ["y"], "Relu_0")]
    rows = batch or m
    return model(nodes, [value_info("x", [rows, k])], [value_info("y", [rows, n])], [tensor("w", [k, n], w), tensor("b", [n], [j - 2 for j in range(n)])])


def dense_reference(x, m=4, k=3, n=5):
    """What dense() computes for the row-major values `x`."""
    w = [i % 5 - 1 for i in range(k * n)]
    return [max(0.0, sum(x[r * k + q] * w[q * n + c] for q in range(k)) + c - 2) for r in range(m) for c in range(n)]


def recurrent(channels=32, extent=14):
    """h.next = conv(h) + x over images with a 3 x 3 filter, w[i] = i * 37 % 101 % 3 - 1, and the planes' largest elements."""
    image, filters = [1, channels, extent, extent], channels * channels * 9
    nodes = [node("Conv", ["h", "w"], ["c"], "Conv_0", [("pads", [1, 1, 1, 1])]), node("Add", ["c", "x"], ["h.next"], "Add_0"),
             node("GlobalMaxPool", ["h.next"], ["y"], "Max_0")]
    return model(nodes, [value_info("x", image), value_info("h", image)], [value_info("y", [1, channels, 1, 1]), value_info("h.next", image)],
                 [tensor("w", [channels, channels, 3, 3], [i * 37 % 101 % 3 - 1 for i in range(filters)])])


if __name__ == "__main__":  # onnx_bytes.py OUT.onnx [BATCH_NAME]: writes dense()
    import pathlib
    import sys

    pathlib.Path(sys.argv[1]).write_bytes(dense(batch=sys.argv[2] if len(sys.argv) > 2 else None))
