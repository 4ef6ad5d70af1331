"""Networks of torchvision's that were not looked at while the compiler was written; weights are seeded, not trained.

torch is imported by whoever builds or exports a model (torch_modules.py), never by the runner itself.
"""
NAMES = ["alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet1_0",
         "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_800mf", "regnet_y_400mf", "resnet34", "resnext50_32x4d",
         "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t", "vgg11_bn", "vit_b_32", "wide_resnet50_2"]
SIDES = {"inception_v3": 299}


def build(spec, is_exporting=False):
    """The module of {"constructor": NAME, "seed": N} with weights that all matter: statistics of batch norms are those of
    some images, so that values stay in the range of 16-bit floats, and no head is zero."""
    import torch
    import torchvision
    del is_exporting
    torch.manual_seed(spec["seed"])
    module = torchvision.models.get_model(spec["constructor"], weights=None).eval()
    norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for part in norms:
        part.momentum = 1.0  # of the last batch alone
        part.weight.data.uniform_(0.8, 1.2)
        part.bias.data.uniform_(-0.1, 0.1)
        part.train()
    if norms:
        side = SIDES.get(spec["constructor"], 224)
        with torch.no_grad():
            module(torch.randn(4, 3, side, side))
    for part in module.modules():
        if isinstance(part, torch.nn.Linear) and not part.weight.any():
            torch.nn.init.normal_(part.weight, std=0.02)
    return module.eval()


def feeds(spec, module):
    """Images for the module, as many as spec's "batch"."""
    import numpy as np
    del module
    side = SIDES.get(spec["constructor"], 224)
    return {"input": np.random.default_rng(spec["seed"]).standard_normal((spec["batch"], 3, side, side), dtype=np.float32)}
