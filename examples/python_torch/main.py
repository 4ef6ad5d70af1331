"""A module of torch, compiled for inference by torch.compile. Needs the packages torch, onnx and onnxscript."""
from __future__ import annotations

import sys


def main() -> None:
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        print(f"not run: this example needs the package {error.name}", file=sys.stderr)
        return
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 8)).eval()
    x = torch.randn(4, 64)
    fast = torch.compile(net, backend="tilewright")
    with torch.inference_mode():
        print("largest difference:", float((fast(x) - net(x)).abs().max()))


if __name__ == "__main__":
    main()
