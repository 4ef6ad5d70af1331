"""The suites: each module has `cases(suite, options)`, a seeded generator. MODEL.onnx is a suite of its own."""
import importlib
import pathlib

from . import case  # noqa: F401

SUITES = {
    "networks": "networks", "held-out": "held_out", "gemm10": "operators", "conv3x3": "operators",
    "depthwise": "operators", "alt9": "alt9", "roller119": "roller119",
    "choice30": "operators", "gemm30": "gpu", "gemm-epilogues": "gpu", "conv-epilogues": "gpu", "unaligned": "gpu",
    "memory": "gpu", "pairs": "pairs", "transformers": "transformers", "conv-gradients": "conv_gradients"}
# What one call costs is taken off operators' times: networks pay it once for many operators.
OPERATOR_SUITES = {"gemm10", "conv3x3", "depthwise", "alt9", "roller119", "choice30", "gemm30",
                   "gemm-epilogues", "conv-epilogues", "unaligned", "memory", "pairs", "conv-gradients"}
# Tilewright with other flags that a suite is about: {suite: {name: flags}}, as run.py --variant has them.
VARIANTS = {"pairs": {"apart": "--disable-pass fuse-chains"}}
# Engines on GPUs where a suite has others than all.
GPU_ENGINES = {"transformers": ["tilewright", "eager", "frozen", "xla"], "conv-gradients": ["tilewright", "eager"]}


def cases(suite, options):
    module = "files" if suite.endswith(".onnx") else SUITES[suite]
    return importlib.import_module("." + module, __name__).cases(suite, options)


def name_of(suite):
    """What results of a suite are called."""
    return pathlib.Path(suite).stem if suite.endswith(".onnx") else suite
