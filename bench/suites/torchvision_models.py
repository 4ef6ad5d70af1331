"""Networks of torchvision's that were not looked at while the compiler was written; weights are seeded, not trained.

  python3 bench/suites/torchvision_models.py NAME SEED BATCH OUT.onnx     exports one, with inputs in OUT.npz

torch is imported by whoever builds or exports a model, never by the runner itself.
"""
import pathlib
import sys

NAMES = ["alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet1_0",
         "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_800mf", "regnet_y_400mf", "resnet34", "resnext50_32x4d",
         "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t", "vgg11_bn", "vit_b_32", "wide_resnet50_2"]
SIDES = {"inception_v3": 299}
OPSET = 17


def build(spec):
    """The module of {"constructor": NAME, "seed": N} with batch statistics that are not the identity."""
    import torch
    import torchvision
    torch.manual_seed(spec["seed"])
    module = torchvision.models.get_model(spec["constructor"], weights=None).eval()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.uniform_(-0.1, 0.1)
            part.running_var.uniform_(0.8, 1.2)
            part.weight.data.uniform_(0.8, 1.2)
            part.bias.data.uniform_(-0.1, 0.1)
    return module


def export(name, seed, batch, path):
    import numpy as np
    import torch
    module = build({"constructor": name, "seed": seed})
    side = SIDES.get(name, 224)
    image = np.random.default_rng(seed).standard_normal((batch, 3, side, side), dtype=np.float32)
    temporary = path.with_suffix(".part")
    torch.onnx.export(module, (torch.from_numpy(image),), str(temporary), dynamo=False, opset_version=OPSET,
                      input_names=["input"], output_names=["logits"])
    np.savez(path.with_suffix(".npz"), input=image)
    temporary.replace(path)


if __name__ == "__main__":
    export(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4]))
