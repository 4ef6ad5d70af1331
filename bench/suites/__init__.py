"""The suites: each module has `cases(options)`, a seeded generator of cases."""
import importlib

SUITES = {
    "networks": "networks", "held-out": "held_out", "gemm10": "operators", "conv3x3": "operators",
    "depthwise": "operators", "alt9": "alt9", "roller119": "roller119"}
# What one call costs is taken off operators' times: networks pay it once for many operators.
OPERATOR_SUITES = {"gemm10", "conv3x3", "depthwise", "alt9", "roller119"}


def cases(suite, options):
    return importlib.import_module("." + SUITES[suite], __name__).cases(suite, options)
