"""Convolutional networks in torchvision's architectures; batch norms stay nodes. `small` divides widths by eight.

Sources: ResNet (He et al. 2015), MobileNetV2 (Sandler et al. 2018), VGG (Simonyan & Zisserman 2014), RepVGG in deploy
form (Ding et al. 2021, one 3x3 convolution and ReLU a block), ResNet3D-18 (Tran et al. 2018, torchvision's r3d_18).
"""
from .builder import Builder

RESNETS = {"resnet18": ([2, 2, 2, 2], False), "resnet50": ([3, 4, 6, 3], True)}
VGGS = {"vgg16": [2, 2, 3, 3, 3], "vgg19": [2, 2, 4, 4, 4]}
REPVGGS = {"repvgg_a0": ([2, 4, 14, 1], [48, 96, 192, 1280]), "repvgg_a1": ([2, 4, 14, 1], [64, 128, 256, 1280]),
           "repvgg_b0": ([4, 6, 16, 1], [64, 128, 256, 1280])}
# expansion, channels, blocks, first stride
MOBILENET_V2 = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                (6, 320, 1, 1)]
# A global average keeps the difference between channels only; this share of the variance is measured, not derived.
POOLED_SHARE = 0.1


class Convnet(Builder):
    """A Builder with the sizes that `small` changes and the blocks that several networks share."""

    def __init__(self, name, seed, batch, dynamic, small):
        super().__init__(name, seed, batch, dynamic)
        self.divisor = 8 if small else 1
        self.image = 64 if small else 224
        self.classes = 10 if small else 1000

    def width(self, channels):
        return max(channels // self.divisor, 4)

    def conv_bn(self, x, name, cin, cout, kernel, stride=1, group=1, gain=1.0, bn=None):
        y = self.conv(x, name, cin, cout, kernel, stride, group=group)
        return self.batch_norm(y, bn or name.replace("conv", "bn"), cout, gain)

    def shrink_variance(self, x):
        mean, var = self.moments[x]
        self.moments[x] = (mean, var * POOLED_SHARE)
        return x

    def classifier(self, x, name, channels):
        pooled = self.node("GlobalAveragePool", [x])
        flat = self.node("Flatten", [self.shrink_variance(pooled)], axis=1)
        self.output(self.gemm(flat, name, channels, self.classes), [self.classes], "logits")


def _basic_block(b, x, name, cin, width, stride, rank):
    pair = lambda i: (f"{name}.conv{i}", f"{name}.bn{i}") if rank == 2 else (f"{name}.conv{i}.0", f"{name}.conv{i}.1")
    (conv1, bn1), (conv2, bn2) = pair(1), pair(2)
    y = b.relu(b.conv_bn(x, conv1, cin, width, (3,) * rank, stride, bn=bn1))
    return b.conv_bn(y, conv2, width, width, (3,) * rank, bn=bn2), width


def _bottleneck(b, x, name, cin, width, stride, rank):
    y = b.relu(b.conv_bn(x, f"{name}.conv1", cin, width, (1,) * rank))
    y = b.relu(b.conv_bn(y, f"{name}.conv2", width, width, (3,) * rank, stride))
    return b.conv_bn(y, f"{name}.conv3", width, 4 * width, (1,) * rank), 4 * width


def _residual_stages(b, x, blocks, bottleneck, rank):
    block = _bottleneck if bottleneck else _basic_block
    cin = b.width(64)
    for stage, count in enumerate(blocks):
        width = b.width(64 << stage)
        for i in range(count):
            name, stride = f"layer{stage + 1}.{i}", 2 if stage > 0 and i == 0 else 1
            y, cout = block(b, x, name, cin, width, stride, rank)
            if stride != 1 or cin != cout:
                x = b.conv_bn(x, f"{name}.downsample.0", cin, cout, (1,) * rank, stride, bn=f"{name}.downsample.1")
            x, cin = b.relu(b.add(y, x)), cout
    b.classifier(x, "fc", cin)
    return b


def resnet(name, **options):
    blocks, bottleneck = RESNETS[name]
    b = Convnet(name, **options)
    x = b.input("input", [3, b.image, b.image])
    x = b.relu(b.conv_bn(x, "conv1", 3, b.width(64), (7, 7), 2))
    return _residual_stages(b, b.max_pool(x, 3, 2, 1), blocks, bottleneck, 2)


def resnet3d_18(name, **options):
    b = Convnet(name, **options)
    frames, side, b.classes = (8, 32, 10) if b.divisor > 1 else (16, 112, 400)
    x = b.input("input", [3, frames, side, side])
    x = b.relu(b.conv_bn(x, "stem.0", 3, b.width(64), (3, 7, 7), (1, 2, 2), bn="stem.1"))
    return _residual_stages(b, x, [2, 2, 2, 2], False, 3)


def vgg(name, **options):
    b = Convnet(name, **options)
    x, cin, index = b.input("input", [3, b.image, b.image]), 3, 0
    for stage, count in enumerate(VGGS[name]):
        width = b.width(64 << min(stage, 3))
        for _ in range(count):
            x, cin = b.relu(b.conv(x, f"features.{index}", cin, width, (3, 3), bias=True)), width
            index += 2
        x, index = b.max_pool(x, 2, 2, 0), index + 1
    x = b.node("AveragePool", [x], kernel_shape=[1, 1], strides=[1, 1])
    x, features, hidden = b.node("Flatten", [x], axis=1), cin * (b.image // 32) ** 2, b.width(4096)
    x = b.relu(b.gemm(x, "classifier.0", features, hidden))
    x = b.relu(b.gemm(x, "classifier.3", hidden, hidden))
    b.output(b.gemm(x, "classifier.6", hidden, b.classes), [b.classes], "logits")
    return b


def repvgg(name, **options):
    blocks, widths = REPVGGS[name]
    b = Convnet(name, **options)
    x, cin, index = b.input("input", [3, b.image, b.image]), 3, 0
    for count, width in zip([1, *blocks], [min(64, widths[0]), *widths]):
        for i in range(count):
            cout = b.width(width)
            x, cin = b.relu(b.conv(x, f"f.{index}", cin, cout, (3, 3), 2 if i == 0 else 1, bias=True)), cout
            index += 2
    x = b.shrink_variance(b.node("ReduceMean", [x], axes=[2, 3], keepdims=0))
    b.output(b.gemm(x, "fc", cin, b.classes), [b.classes], "logits")
    return b


def mobilenet_v2(name, **options):
    b = Convnet(name, **options)
    # gain 3 lets about one activation in forty reach the upper bound of ReLU6, so that the bound is tested
    cbr = lambda x, key, cin, cout, k, s=1, g=1: b.relu6(
        b.conv_bn(x, f"features.{key}.0", cin, cout, (k, k), s, g, gain=3.0, bn=f"features.{key}.1"))
    x, cin, index = b.input("input", [3, b.image, b.image]), b.width(32), 1
    x = cbr(x, "0", 3, cin, 3, 2)
    for expansion, channels, count, first in MOBILENET_V2:
        cout = b.width(channels)
        for i in range(count):
            stride, hidden, key = first if i == 0 else 1, cin * expansion, f"{index}.conv"
            y = cbr(x, f"{key}.0", cin, hidden, 1) if expansion != 1 else x
            y = cbr(y, f"{key}.{int(expansion != 1)}", hidden, hidden, 3, stride, hidden)
            last = 1 + int(expansion != 1)
            y = b.conv_bn(y, f"features.{key}.{last}", hidden, cout, (1, 1), bn=f"features.{key}.{last + 1}")
            x, cin, index = (b.add(x, y) if stride == 1 and cin == cout else y), cout, index + 1
    x = cbr(x, "18", cin, b.width(1280), 1)
    b.classifier(x, "classifier.1", b.width(1280))
    return b


NETWORKS = {**dict.fromkeys(RESNETS, resnet), "mobilenet_v2": mobilenet_v2, **dict.fromkeys(VGGS, vgg),
            **dict.fromkeys(REPVGGS, repvgg), "resnet3d_18": resnet3d_18}
