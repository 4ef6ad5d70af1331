"""Transformers at the lengths that people use, in batches of 1 and 8, and the decoding of one token. Peers are torch's own
modules (transformer_modules.py, torchvision) with its fused attention; XLA gets the exported graph.

On CPUs BERT-base and GPT-2 at 512 tokens alone.
"""
import onnx

from . import torch_modules
from .case import Case

# Network: tokens. Of the images' and Whisper's none are chosen. What decodes has one token, and so many keys with its own.
TOKENS = {"gpt2": [128, 512, 1024], "llama": [512, 2048], "bert_base": [128, 384, 512], "t5_encoder": [512],
          "t5_decoder": [512], "whisper_encoder": [], "clip": [77], "gpt2_decode": [1024], "llama_decode": [1024]}
TORCHVISION = ["vit_b_16", "swin_t"]
ON_CPUS = ["bert_base_512", "gpt2_512"]
BATCHES = [1, 8]


def specs(is_small=False):
    """(name, specification without seed and batch) of each. Small ones have an eighth of the tokens, and none of
    torchvision's is among them."""
    for network, lengths in TOKENS.items():
        for tokens in lengths or [None]:
            name = network + f"_{tokens}" * bool(tokens) + "_small" * is_small
            yield name, {"network": network, "tokens": tokens and tokens // (8 if is_small else 1), "small": is_small}
    yield from ((name, {"constructor": name}) for name in TORCHVISION if not is_small)


def states(model):
    """Flags with which the artefact keeps the model's states."""
    graph = onnx.load(model, load_external_data=False).graph
    kept = [v.name for v in graph.input if v.name.startswith(torch_modules.STATE)]
    return tuple(f"--state={name}={name.replace(torch_modules.STATE, torch_modules.NEXT_STATE)}" for name in kept)


def cases(suite, options):
    del suite
    folder = options.folder / f"seed{options.seed}"
    for name, spec in specs(options.small):
        if not options.on_gpu and name.removesuffix("_small") not in ON_CPUS:
            continue
        for batch in [options.batch] if options.batch else BATCHES if options.on_gpu else [1]:
            label = f"{name}_b{batch}"
            path, spec = folder / torch_modules.file_name(name, batch, options.exporter), dict(
                spec, seed=options.seed, batch=batch)
            if options.keeps(label) and torch_modules.export(spec, path, options.exporter):
                yield Case(label, path, "transformer", batch, torch=spec, own_module=True, compile_flags=states(path))
                if not (options.small or options.keep_models):  # with what was made of it, up to 3 GB
                    for file in folder.glob(f"{path.stem}.*"):
                        file.unlink()
