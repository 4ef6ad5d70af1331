"""Gradients of ten convolutions of ResNet-50, of data and of weights, alone: Tilewright computes the transposed convolution
and the convolution over images that training makes of them (scripts/models/operators.py), torch the two of cuDNN's that it
trains with, the fastest of them. Channels last at the edges, weights among them.
"""
import dataclasses
import sys

from .case import ROOT, make_operators

sys.path.insert(0, str(ROOT / "scripts"))
from models import operators  # noqa: E402

# Side, channels in and out, kernel, stride: the first layer, then some of each stage with its strides.
CONVS = [(224, 3, 64, 7, 2), (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 128, 128, 3, 2),
         (28, 128, 128, 3, 1), (56, 256, 512, 1, 2), (28, 256, 256, 3, 2), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1)]
BATCH = 64


def specs(is_small=False):
    for side, cin, cout, kernel, stride in CONVS:
        conv = {"op": "conv_gradient", "batch": 2 if is_small else BATCH, "cin": cin, "cout": cout, "in": [side] * 2,
                "kernel": [kernel] * 2, "stride": [stride] * 2}
        for of in ("data", "weights"):
            if of == "weights" or cin > 3:  # nobody wants the gradient of images
                yield dict(conv, of=of, name=f"{of}_{side}_{cin}_{cout}_k{kernel}_s{stride}" + "_small" * is_small)


def build(spec, is_exporting=False):
    """torch's module of {"operator": specification}, for the same inputs."""
    import torch
    del is_exporting
    conv = spec["operator"]
    stride, pad, dilation, _ = operators.geometry(conv)
    is_data, rank = conv["of"] == "data", len(conv["kernel"])
    given = list(operators.conv_gradient_inputs(conv))
    shapes = {"x": (conv["batch"], *conv["in"], conv["cin"]), "w": (conv["cout"], *conv["kernel"], conv["cin"])}

    class Gradient(torch.nn.Module):
        missing = None  # of x and w, the one that is not given: cuDNN asks for its shape alone

        def forward(self, *tensors):
            if self.missing is None:
                self.missing = tensors[0].new_zeros(shapes["x" if is_data else "w"])
            values = {**dict(zip(given, tensors)), "x" if is_data else "w": self.missing}
            dy, x, w = (values[name].movedim(-1, 1) for name in ("dy", "x", "w"))
            found = torch.ops.aten.convolution_backward(dy, x, w, None, stride, pad, dilation, False, [0] * rank, 1,
                                                        [is_data, not is_data, False])
            return found[0 if is_data else 1].movedim(1, -1)

    return Gradient()


def cases(suite, options):
    del suite
    listed = {spec["name"]: spec for spec in specs(options.small)}
    made = make_operators(list(listed.values()), lambda spec: spec["of"], options)
    return [dataclasses.replace(case, torch={"operator": listed[case.name]}, own_module=True) for case in made]
