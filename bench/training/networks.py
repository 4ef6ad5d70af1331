"""The networks as torch modules with seeded weights, from torch, torchvision and the configurations of the package
`transformers`. torch is imported here: only what builds or exports a module imports this.

Transformers have no dropouts but the encoder layer, where a case says how large; batch norms normalize by the batch. What
decodes has a vocabulary behind it, and its logits are a row for each token.
"""
import torch
import torchvision
import transformers
from torch import nn

from suites import transformer_modules

CLASSES = 10


class FirstToken(nn.Module):
    """Classes of the first token's last hidden state."""

    def __init__(self, module, width):
        super().__init__()
        self.module, self.head = module, nn.Linear(width, CLASSES)

    def forward(self, ids):
        return self.head(self.module(input_ids=ids).last_hidden_state[:, 0])


class NextToken(nn.Module):
    """Logits of all tokens."""

    def __init__(self, module, width, vocabulary, reads):
        super().__init__()
        self.module, self.head = module, nn.Linear(width, vocabulary, bias=False)
        self._vocabulary, self._reads = vocabulary, reads

    def forward(self, x):
        hidden = self.module(**{self._reads: x}, use_cache=False).last_hidden_state
        return self.head(hidden).reshape(-1, self._vocabulary)


def _bert(spec):
    heads, width = spec["width"] // 64 if spec["width"] >= 128 else 4, spec["width"]
    config = transformers.BertConfig(
        attn_implementation=transformer_modules.ATTENTION, hidden_size=width, num_hidden_layers=spec["layers"],
        num_attention_heads=heads, intermediate_size=4 * width, vocab_size=spec["vocabulary"])
    module = FirstToken(transformers.BertModel(config, add_pooling_layer=False), width).eval()
    return module, {"ids": torch.randint(0, spec["vocabulary"], (spec["batch"], spec["tokens"]))}


def _gpt2(spec):
    base = transformer_modules.gpt2(spec["small"])
    module = NextToken(base, base.config.n_embd, base.config.vocab_size, "input_ids").eval()
    return module, {"ids": torch.randint(0, base.config.vocab_size, (spec["batch"], spec["tokens"]))}


def _llama(spec):
    base = transformer_modules.llama(spec["small"])
    module = NextToken(base, base.config.hidden_size, spec["vocabulary"], "inputs_embeds").eval()
    return module, {"x": torch.randn(spec["batch"], spec["tokens"], base.config.hidden_size)}


class EncoderLayer(nn.Module):
    """BERT's, with ReLU as in Data Movement Is All You Need. torch's own module cannot be written by its exporter."""

    def __init__(self, width, heads, ratio):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self._heads, self._ratio = heads, ratio

    def _dropout(self, x):
        return nn.functional.dropout(x, self._ratio, self.training) if self._ratio else x

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.reshape(batch, tokens, self._heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self._ratio)
        y = self.norm1(x + self._dropout(self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))))
        return self.norm2(y + self._dropout(self.second(self._dropout(torch.relu(self.first(y))))))


def _encoder(spec):
    module = EncoderLayer(spec["width"], spec["width"] // 64 if spec["width"] >= 128 else 4, spec["dropout"])
    return module.train(), {"x": torch.randn(spec["batch"], spec["tokens"], spec["width"])}


def _images(spec, module):
    return module, {"x": torch.randn(spec["batch"], 3, spec["pixels"], spec["pixels"])}


def _block(inside, out, kernel=3, stride=1, group=1, active=True):
    conv = nn.Conv2d(inside, out, kernel, stride, kernel // 2, groups=group, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), *([nn.ReLU()] if active else []))


def _classes(spec, layers, channels):
    return _images(spec, nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)).train())


def _cnn(spec):
    shapes = [(3, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    return _classes(spec, [_block(inside, out, 3, stride) for inside, out, stride in shapes], 128)


class Residual(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.inner = nn.Sequential(_block(inside, out, 3, stride), _block(out, out, active=False))
        self.outer = _block(inside, out, 1, stride, active=False) if (stride, inside) != (1, out) else nn.Identity()

    def forward(self, x):
        return torch.relu(self.inner(x) + self.outer(x))


def _resnet20(spec):
    """Of CIFAR, with projections where the shape changes."""
    layers, inside = [_block(3, 16)], 16
    for out, first in ((16, 1), (32, 2), (64, 2)):
        for stride in (first, 1, 1):
            layers.append(Residual(inside, out, stride))
            inside = out
    return _classes(spec, layers, inside)


def _vgg(spec):
    """Four convolutions with biases, poolings, two linear layers."""
    layers, inside = [], 3
    for out in (32, 64):
        layers += [nn.Conv2d(inside, out, 3, 1, 1), nn.ReLU(), nn.Conv2d(out, out, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
        inside = out
    head = [nn.Flatten(), nn.Linear(inside * (spec["pixels"] // 4)**2, 128), nn.ReLU(), nn.Linear(128, CLASSES)]
    return _images(spec, nn.Sequential(*layers, *head).train())


def _mobile(spec):
    """Depthwise convolutions, each before one of 1x1."""
    layers = [_block(3, 32)]
    for inside, out, stride in ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)):
        layers += [_block(inside, inside, 3, stride, inside), _block(inside, out, 1)]
    return _classes(spec, layers, 256)


def _resnet(spec):
    make = torchvision.models.resnet18 if spec["small"] else torchvision.models.resnet50
    return _images(spec, make(num_classes=CLASSES).train())


def _vit(spec):
    if spec["small"]:
        return _images(spec, torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=CLASSES).eval())
    return _images(spec, torchvision.models.vit_l_16(num_classes=CLASSES).eval())


NETWORKS = {"bert": _bert, "gpt2": _gpt2, "llama": _llama, "encoder": _encoder, "cnn": _cnn, "resnet20": _resnet20,
            "vgg": _vgg, "mobile": _mobile, "resnet": _resnet, "vit": _vit}


def build(spec):
    """(module, inputs by name, labels); from the specification's seed alone."""
    torch.manual_seed(spec["seed"])
    module, inputs = NETWORKS[spec["network"]](spec)
    with torch.no_grad():
        y = module(*inputs.values())
    labels = torch.randn(y.shape) if spec["loss"] == "mse" else torch.randint(0, y.shape[1], (len(y),))
    torch.manual_seed(spec["seed"])  # batch norms have followed that batch
    return NETWORKS[spec["network"]](spec)[0], inputs, labels
