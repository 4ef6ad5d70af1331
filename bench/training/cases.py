"""What is measured: specifications by name. `function` is what a run does: "step" is forward, loss, backward and AdamW,
"grads" all but the last. Small ones have the same layers, few of them, and little channels."""

ENCODER = {"network": "encoder", "width": 1024, "loss": "mse", "function": "grads"}
SMALL = {"encoder": {"width": 64, "batch": 2, "tokens": 32}, "bert": {"width": 64, "layers": 2, "vocabulary": 512, "batch": 2, "tokens": 32},
         "gpt2": {"batch": 2, "tokens": 32}, "llama": {"batch": 2, "tokens": 32, "vocabulary": 512},
         "vit": {"batch": 2, "pixels": 32}, "resnet": {"batch": 4, "pixels": 32}, "cnn": {"batch": 4},
         "resnet20": {"batch": 4}, "vgg": {"batch": 4}, "mobile": {"batch": 4}}
CASES = {
    "encoder_b8_l512": {**ENCODER, "batch": 8, "tokens": 512, "dropout": 0.0},
    "encoder_b8_l512_dropout": {**ENCODER, "batch": 8, "tokens": 512, "dropout": 0.1},
    "encoder_b96_l128": {**ENCODER, "batch": 96, "tokens": 128, "dropout": 0.0},
    "encoder_b96_l128_dropout": {**ENCODER, "batch": 96, "tokens": 128, "dropout": 0.1},
    "bert_tiny_b8": {"network": "bert", "width": 128, "layers": 2, "vocabulary": 30522, "batch": 8, "tokens": 128},
    "cnn_b32": {"network": "cnn", "pixels": 32, "batch": 32},
    "resnet20_b32": {"network": "resnet20", "pixels": 32, "batch": 32},
    "vgg_b64": {"network": "vgg", "pixels": 32, "batch": 64},
    "mobile_b32": {"network": "mobile", "pixels": 32, "batch": 32},
    "bert_large_b16": {"network": "bert", "width": 1024, "layers": 24, "vocabulary": 30522, "batch": 16, "tokens": 512},
    "gpt2_b8": {"network": "gpt2", "batch": 8, "tokens": 1024},
    "vit_l_16_b16": {"network": "vit", "pixels": 224, "batch": 16},
    "llama_b4": {"network": "llama", "batch": 4, "tokens": 1024, "vocabulary": 32000},
    "resnet50_b64": {"network": "resnet", "pixels": 224, "batch": 64},
}
ON_CPUS = ["bert_tiny_b8", "cnn_b32", "resnet20_b32", "vgg_b64", "mobile_b32", "encoder_b8_l512", "encoder_b8_l512_dropout"]


def specs(on_gpu, is_small, only, seed):
    """{name: specification} of one device, or of all where sizes are small."""
    for name, spec in CASES.items():
        if not (on_gpu or is_small or name in ON_CPUS) or not (not only or any(part in name for part in only)):
            continue
        sizes = SMALL[spec["network"]] if is_small else {}
        yield name, {"loss": "cross_entropy", "function": "step", "small": is_small, "seed": seed, "dropout": 0.0, **spec, **sizes}
