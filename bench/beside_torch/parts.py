"""Parts that random torch modules are made of: each draws itself for an input of a shape, or declines with None.

A part is a torch module from one or several tensors to one. Sizes are small and odd where they can be.
"""
import torch
from torch import nn
from torch.nn import functional as F

ELEMENTWISE = [F.relu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), torch.sigmoid, torch.tanh, F.silu, F.elu, F.selu,
               F.celu, F.softplus, F.softsign, F.mish, F.hardswish, F.hardsigmoid, F.leaky_relu, F.relu6, torch.sin,
               torch.cos, torch.erf, torch.abs, torch.atan, torch.neg, torch.square, F.logsigmoid, F.tanhshrink,
               F.hardtanh, F.softshrink, F.hardshrink, lambda x: x ** 3, lambda x: torch.exp(torch.tanh(x)),
               lambda x: torch.log(F.softplus(x) + 0.5), lambda x: torch.sqrt(F.softplus(x) + 0.1),
               lambda x: torch.rsqrt(x * x + 0.5), lambda x: 1 / (1.5 + torch.sin(x)), lambda x: torch.clamp(x, -0.7, 0.9),
               lambda x: torch.clamp(x, min=-0.3), lambda x: torch.where(x > 0.1, x, 0.3 * x),
               lambda x: x.masked_fill(x < -0.5, -1.0), lambda x: 0.5 * x + 0.25, lambda x: torch.log1p(x * x),
               lambda x: torch.exp(torch.sin(x)) - 1, lambda x: torch.asin(0.8 * torch.sin(x)), torch.nan_to_num]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda a, b: a / (F.softplus(b) + 0.3),
          lambda a, b: torch.where(a > b, a, b * 0.5), lambda a, b: torch.lerp(a, b, 0.3),
          lambda a, b: (F.softplus(a) + 0.2) ** torch.tanh(b), lambda a, b: torch.addcmul(a, a, b, value=0.5),
          lambda a, b: torch.fmod(a, F.softplus(b) + 0.4)]


class Function(nn.Module):
    def __init__(self, function, **parameters):
        super().__init__()
        self._function = function
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value))

    def forward(self, *tensors):
        return self._function(*tensors, *self.parameters())


def _axis(draw, shape):
    return draw.randrange(len(shape))


def _normal(draw, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(draw.getrandbits(31)))


def elementwise(draw, shape):
    if draw.random() < 0.1:
        return nn.PReLU(shape[1] if len(shape) > 1 and draw.random() < 0.5 else 1)
    return Function(draw.choice(ELEMENTWISE))


def with_parameter(draw, shape):
    """Of x and a parameter that is broadcast to it, or as large."""
    of = [1 if draw.random() < 0.4 else extent for extent in shape]
    of = of[1:] if len(of) > 1 and draw.random() < 0.5 else of
    function = draw.choice(BINARY)
    if draw.random() < 0.3:
        return Function(lambda x, p: function(p.expand_as(x), x), p=_normal(draw, *of))
    return Function(function, p=_normal(draw, *of))


def reduction(draw, shape):
    if len(shape) < 2:
        return None
    axes = draw.sample(range(len(shape)), draw.randint(1, len(shape) - 1))
    keep = draw.random() < 0.5
    one, last = axes[0], shape[axes[0]]
    return Function(draw.choice([
        lambda x: x.sum(axes, keepdim=keep), lambda x: x.mean(axes, keepdim=keep), lambda x: x.amax(axes, keepdim=keep),
        lambda x: x.amin(axes, keepdim=keep), lambda x: torch.logsumexp(x, axes, keepdim=keep),
        lambda x: torch.tanh(x).prod(one, keepdim=keep), lambda x: x.max(one, keepdim=keep)[0],
        lambda x: torch.linalg.vector_norm(x + 0.1, dim=axes, keepdim=keep),
        lambda x: x.abs().sum(axes, keepdim=keep), lambda x: torch.cumsum(x, one),
        lambda x: x.var(axes, keepdim=keep, unbiased=last > 1), lambda x: F.normalize(x, dim=one)]))


def softmax(draw, shape):
    axis = _axis(draw, shape)
    return Function(draw.choice([lambda x: torch.softmax(x, axis), lambda x: torch.log_softmax(x, axis),
                                 lambda x: F.softmin(x, axis)]))


def linear(draw, shape):
    if draw.random() < 0.6:
        return nn.Linear(shape[-1], draw.choice([1, 3, 5, 7]), bias=draw.random() < 0.8)
    if len(shape) == 2 and draw.random() < 0.3:
        return Function(lambda x: x @ x.transpose(-1, -2))
    if len(shape) >= 3 and draw.random() < 0.5:
        return Function(lambda x, w: x @ w, w=_normal(draw, shape[-3], shape[-1], 3) / shape[-1] ** 0.5)
    return Function(lambda x, w: torch.einsum("...a,ab->...b", x, w), w=_normal(draw, shape[-1], 5) / shape[-1] ** 0.5)


def convolution(draw, shape):
    rank = len(shape) - 2
    if rank not in (1, 2, 3):
        return None
    channels, inside = shape[1], shape[2:]
    kernel = [draw.randint(1, min(3, extent)) for extent in inside]
    dilation = [draw.randint(1, 2) if (k - 1) * 2 < extent else 1 for k, extent in zip(kernel, inside)]
    stride = [draw.randint(1, 2) for _ in inside]
    groups = draw.choice([g for g in (1, 2, 3, channels) if channels % g == 0])
    out = groups * draw.randint(1, 3)
    bias = draw.random() < 0.7
    if draw.random() < 0.25:
        layer = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[rank - 1]
        return layer(channels, out, kernel, stride, [draw.randint(0, k - 1) for k in kernel], groups=groups, bias=bias,
                     output_padding=[draw.randrange(s) for s in stride])
    layer = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
    mode = draw.choice(["zeros", "zeros", "zeros", "reflect", "replicate", "circular"])
    padding = [draw.randint(0, min(k - 1, extent - 1)) for k, extent in zip(kernel, inside)]
    return layer(channels, out, kernel, stride, padding, dilation, groups, bias, mode)


def pooling(draw, shape):
    rank = len(shape) - 2
    if rank not in (1, 2, 3):
        return None
    kernel = [draw.randint(1, min(3, extent)) for extent in shape[2:]]
    stride = [draw.randint(1, 2) for _ in kernel]
    pads = [draw.randint(0, k // 2) for k in kernel]
    ceil = draw.random() < 0.3
    max_pool = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[rank - 1]
    avg_pool = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[rank - 1]
    whole = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[rank - 1]
    return draw.choice([lambda: max_pool(kernel, stride, pads, ceil_mode=ceil),
                        lambda: avg_pool(kernel, stride, pads, ceil, draw.random() < 0.5), lambda: whole(1)])()


def normalization(draw, shape):
    channels, rank = shape[1] if len(shape) > 1 else 0, len(shape)
    norms = [lambda: nn.LayerNorm(shape[-1]), lambda: nn.LayerNorm(shape[-1], elementwise_affine=False),
             lambda: RootMeanSquare(shape[-1])]
    if rank >= 3:
        norms += [lambda: nn.GroupNorm(draw.choice([g for g in (1, 2, 3, channels) if channels % g == 0]), channels),
                  lambda: nn.LayerNorm(shape[-2:]), lambda: nn.LocalResponseNorm(3, alpha=0.1)]
    elements = 1
    for extent in (shape[0], *shape[2:]):
        elements *= extent
    if 2 <= rank <= 5 and elements >= 8:
        batch_norm = nn.BatchNorm1d if rank <= 3 else nn.BatchNorm2d if rank == 4 else nn.BatchNorm3d
        norms += [lambda: batch_norm(channels)] * 3
    if 3 <= rank <= 5 and elements // shape[0] >= 4:
        instance = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[rank - 3]
        norms += [lambda: instance(channels, affine=True)]
    norm = draw.choice(norms)()
    for parameter in norm.parameters():  # ones and zeros hide what is left out
        if draw.random() < 0.7:
            parameter.data += 0.3 * _normal(draw, *parameter.shape)
    return norm


def gathering(draw, shape):
    axis = _axis(draw, shape)
    index = torch.tensor([draw.randrange(shape[axis]) for _ in range(draw.randint(1, 5))])
    return Function(draw.choice([lambda x: torch.index_select(x, axis, index),
                                 lambda x: torch.gather(x, axis, torch.topk(x, shape[axis], axis)[1]),
                                 lambda x: torch.gather(x, axis, (x > 0).long() * (x.shape[axis] - 1))]))


def movement(draw, shape):
    rank = len(shape)
    axis = _axis(draw, shape)
    order = draw.sample(range(rank), rank)
    extent, count = shape[axis], 1
    for e in shape:
        count *= e
    start = draw.randrange(extent)
    before, after = draw.randint(0, 2), draw.randint(0, 1)
    pads = [0, 0] * (rank - 1 - axis) + [before, after]
    choices = [lambda x: x.permute(order), lambda x: x.transpose(0, axis), lambda x: x.narrow(axis, start, extent - start),
               lambda x: torch.flip(x, [axis]), lambda x: torch.roll(x, start, axis), lambda x: F.pad(x, pads, value=0.25),
               lambda x: torch.cat([x, x * 2], axis), lambda x: torch.stack([x, -x], axis).flatten(axis, axis + 1),
               lambda x: x.flatten(axis), lambda x: torch.repeat_interleave(x, 2, axis),
               lambda x: torch.cat(torch.split(x, max(1, extent // 2), axis)[::-1], axis),
               lambda x: torch.cat(torch.chunk(x, 2, axis)[:1], axis), lambda x: x.unsqueeze(axis).squeeze(axis)]
    if rank >= 2:
        choices += [torch.tril, lambda x: torch.triu(x, 1), lambda x: x[:, ::2], lambda x: x[..., 1:] - x[..., :-1]]
        choices += [lambda x: x.reshape(shape[0], -1)]
    if rank <= 3:
        choices += [lambda x: x.repeat(*([1] * (rank - 1)), 2), lambda x: x[None].expand(2, *x.shape).flatten(0, 1)]
    if rank == 4:
        choices += [lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
                    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
                    lambda x: F.pad(x, (1, 1, 0, 1), mode="replicate")]
        if shape[1] % 4 == 0:
            choices += [lambda x: F.pixel_shuffle(x, 2)]
        if shape[2] >= 2 and shape[3] >= 2:
            choices += [lambda x: F.unfold(x, (2, 2)), lambda x: F.pad(x, (1, 0, 0, 1), mode="reflect")]
    return Function(draw.choice(choices))


class RootMeanSquare(nn.Module):
    """nn.RMSNorm, which torchscript does not write."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-4) * self.weight


class Attention(nn.Module):
    def __init__(self, size, heads, is_causal):
        super().__init__()
        self._heads, self._is_causal = heads, is_causal
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x):
        n, t, size = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self._heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self._is_causal)
        return self.out(y.transpose(1, 2).reshape(n, t, size))


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


def sequence(draw, shape):
    if len(shape) != 3:
        return None
    size = shape[2]
    if draw.random() < 0.3 and shape[1] <= 9:
        layer = draw.choice([nn.LSTM, nn.GRU, nn.RNN])
        return Recurrent(layer(size, 3, batch_first=True, bidirectional=draw.random() < 0.4))
    return Attention(size, draw.choice([h for h in (1, 2, 3, 4) if size % h == 0]), draw.random() < 0.5)


FAMILIES = [elementwise, elementwise, elementwise, with_parameter, with_parameter, reduction, softmax, linear, linear,
            convolution, convolution, convolution, pooling, normalization, normalization, gathering, movement, movement,
            sequence]
