"""Networks that people train, small: the layers of the large ones, few channels. Weights are as their authors begin them.
Modules are in training mode, batch norms with it; none has dropouts, whose random numbers are each program's own.
"""
import pathlib
import sys

import torch
from torch import nn
from torchvision.models import convnext, densenet, mobilenetv2, resnet, swin_transformer, vgg, vision_transformer
from torchvision.models.video import resnet as video

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from suites import transformer_modules  # noqa: E402

CLASSES = 5
THINNER = 4  # a stage of torchvision's residual networks has this part of its channels


def _images(side, batch=4, depth=()):
    return {"x": torch.randn(batch, 3, *depth, side, side)}


class ThinResNet(resnet.ResNet):
    def _make_layer(self, block, planes, *rest, **named):
        return super()._make_layer(block, planes // THINNER, *rest, **named)


class ThinVideoResNet(video.VideoResNet):
    def _make_layer(self, block, conv_builder, planes, *rest, **named):
        return super()._make_layer(block, conv_builder, planes // THINNER, *rest, **named)


def _resnet(block, layers):
    module = ThinResNet(block, layers)
    module.fc = nn.Linear(512 * block.expansion // THINNER, CLASSES)
    return module, _images(48)


def _resnet3d():
    module = ThinVideoResNet(video.BasicBlock, [video.Conv3DSimple] * 4, [2, 2, 2, 2], video.BasicStem)
    module.fc = nn.Linear(512 // THINNER, CLASSES)
    return module, _images(24, depth=(6,))


def _vgg():
    layers = [16, 16, "M", 24, 24, "M", 32, 32, 32, "M", 40, 40, 40, "M", 48, 48, 48, "M"]
    module = vgg.VGG(vgg.make_layers(layers, batch_norm=True))
    module.avgpool, module.classifier = nn.Flatten(), nn.Linear(48, CLASSES)
    return module, _images(32)


class RepVggBlock(nn.Module):
    """In training: 3 x 3, 1 x 1 and identity, each with a batch norm of its own. Ding et al. 2021."""

    def __init__(self, inside, out, stride):
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out))
        self.point = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.same = nn.BatchNorm2d(inside) if inside == out and stride == 1 else None

    def forward(self, x):
        y = self.wide(x) + self.point(x)
        return torch.relu(y if self.same is None else y + self.same(x))


def _repvgg():
    """As many blocks as A0 has."""
    blocks, inside = [RepVggBlock(3, 16, 2)], 16
    for out, count in ((16, 2), (24, 4), (32, 14), (48, 1)):
        for k in range(count):
            blocks.append(RepVggBlock(inside, out, 2 if k == 0 else 1))
            inside = out
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, CLASSES)), _images(64)


def _mobilenet():
    return mobilenetv2.MobileNetV2(CLASSES, width_mult=0.25, dropout=0.0), _images(64)


def _densenet():
    return densenet.DenseNet(6, (3, 4, 3), 12, num_classes=CLASSES), _images(32)


def _convnext():
    settings = [convnext.CNBlockConfig(16, 32, 2), convnext.CNBlockConfig(32, None, 2)]
    return convnext.ConvNeXt(settings, stochastic_depth_prob=0.0, layer_scale=0.5, num_classes=CLASSES), _images(32)


def _vit():
    return vision_transformer.VisionTransformer(32, 8, 3, 4, 32, 64, num_classes=CLASSES), _images(32)


def _swin():
    module = swin_transformer.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0,
                                              num_classes=CLASSES)
    return module, _images(32)


def _transformer(name, draw):
    """Of bench/suites, which have no dropouts outside of training mode and no batch norms."""
    spec = {"network": name, "seed": draw, "small": True, "batch": 2, "tokens": 12}
    module = transformer_modules.build(spec)
    return First(module), {name: torch.from_numpy(value) for name, value in transformer_modules.feeds(spec, module).items()}


class First(nn.Module):
    """The first of several outputs."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        return self.module(*inputs)[0]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(60, 12)
        self.recurrent = nn.LSTM(12, 10, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(20, CLASSES)

    def forward(self, x):
        return self.head(self.recurrent(self.words(x))[0])


NETWORKS = {
    "resnet18": lambda draw: _resnet(resnet.BasicBlock, [2, 2, 2, 2]),
    "resnet50": lambda draw: _resnet(resnet.Bottleneck, [3, 4, 6, 3]),
    "mobilenet_v2": lambda draw: _mobilenet(),
    "vgg16_bn": lambda draw: _vgg(),
    "repvgg_a0": lambda draw: _repvgg(),
    "resnet3d_18": lambda draw: _resnet3d(),
    "densenet": lambda draw: _densenet(),
    "convnext": lambda draw: _convnext(),
    "vit": lambda draw: _vit(),
    "swin": lambda draw: _swin(),
    "bert": lambda draw: _transformer("bert_base", draw),
    "gpt2": lambda draw: _transformer("gpt2", draw),
    "llama": lambda draw: _transformer("llama", draw),
    "t5_encoder": lambda draw: _transformer("t5_encoder", draw),
    "whisper_encoder": lambda draw: _transformer("whisper_encoder", draw),
    "lstm": lambda draw: (Tagger(), {"x": torch.randint(0, 60, (3, 7))}),
}
TRANSFORMERS = ("bert", "gpt2", "llama", "t5_encoder", "whisper_encoder")


def make(name, draw):
    """(module, its inputs by name); `draw` is the seed of both."""
    torch.manual_seed(draw)
    module, inputs = NETWORKS[name](draw)
    return (module if name in TRANSFORMERS else module.train()), inputs
