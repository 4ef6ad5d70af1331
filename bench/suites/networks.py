"""The eight networks, on GPUs ten, from scripts/make_models.py: seeded weights, f32."""
from .case import Case, make_models

NAMES = ["resnet18", "resnet50", "mobilenet_v2", "vgg16", "repvgg_a0", "resnet3d_18", "bert_base", "tinybert"]
GPU_NAMES = [*NAMES, "vgg19", "repvgg_b0"]


def cases(suite, options):
    del suite
    batch = options.batch or 1
    names = [n for n in (GPU_NAMES if options.on_gpu else NAMES) if options.keeps(n)]
    folder = options.folder / f"seed{options.seed}"
    make_models(folder, ["--only", *names, "--batch", batch, "--seed", options.seed])
    suffix = f"_b{batch}" if batch != 1 else ""
    return [Case(name, folder / f"{name}{suffix}.onnx", "network", batch) for name in names]
