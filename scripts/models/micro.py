"""One-operator models for kernels: GEMM with constant or run-time B, convolution, and MatMul + Add + Relu."""
import math

from .builder import Builder


def gemm(m, n, k, both_inputs, seed):
    """y[m, n] = a[m, k] b[k, n]; b is a weight, or a second graph input when `both_inputs`."""
    b = Builder(f"gemm_{m}_{n}_{k}" + ("_ab" if both_inputs else ""), seed, batch=m)
    a = b.input("a", [k])
    if both_inputs:
        b.batch = k
        right = b.input("b", [n])
        b.batch = m
    else:
        right = b.normal("b", (k, n), round(1.0 / math.sqrt(k), 8))
    b.output(b.node("MatMul", [a, right]), [n], "y")
    return b


def conv(cin, cout, side, kernel, stride, seed, batch=1):
    """y = conv2d(x[batch, cin, side, side], w[cout, cin, kernel, kernel]), padding kernel / 2, no bias."""
    b = Builder(f"conv_{cin}_{cout}_{side}_{kernel}_{stride}" + (f"_b{batch}" if batch != 1 else ""), seed, batch)
    x = b.input("x", [cin, side, side])
    out = (side + kernel // 2 * 2 - kernel) // stride + 1
    b.output(b.conv(x, "w", cin, cout, (kernel, kernel), stride), [cout, out, out], "y")
    return b


def mlp(m, n, k, seed, name="mlp"):
    """y[m, n] = relu(x[m, k] w[k, n] + bias[n])."""
    b = Builder(name, seed, batch=m)
    x = b.input("x", [k])
    w, bias = b.normal("w", (k, n), round(1.0 / math.sqrt(k), 8)), b.normal("bias", (n,), 0.5)
    b.output(b.node("Relu", [b.node("Add", [b.node("MatMul", [x, w]), bias])]), [n], "y")
    return b
