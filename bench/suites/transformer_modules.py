"""The transformers of the suite as torch modules with seeded weights, from the configurations of the package
`transformers`. torch is imported here: only what builds or exports a module imports this.

Rows have no padding, and no attention mask is given: attention is what each model makes of that (causal, or over all).
Stacks end with their last hidden states, before any vocabulary. Small ones have the same structure.
"""
import dataclasses
import inspect
import typing

import numpy as np
import torch
import transformers
from transformers.cache_utils import DynamicCache
from transformers.models.llama.modeling_llama import repeat_kv
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from .torch_modules import STATE


def attention(module, query, key, value, mask, scaling=None, is_causal=None, **unused):
    """scaled_dot_product_attention without the masks that `transformers` makes while it is traced: a layer says itself
    whether it is causal. TorchScript's exporter cannot write keys that several queries share."""
    causal, is_grouped = module.is_causal if is_causal is None else is_causal, bool(key.shape[1] != query.shape[1])
    if is_grouped and torch.jit.is_tracing():
        key, value = (repeat_kv(part, module.num_key_value_groups) for part in (key, value))
        is_grouped = False
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, mask, is_causal=bool(causal and query.shape[2] > 1), scale=scaling, enable_gqa=is_grouped)
    return result.transpose(1, 2).contiguous(), None


# Of all but T5, which adds biases of positions to its masks.
ATTENTION = "sdpa_without_masks"
transformers.AttentionInterface.register(ATTENTION, attention)


@dataclasses.dataclass
class Network:
    """make(is_small) -> module; call(module, *inputs) -> tensors; feeds(module's configuration, draw, batch, tokens) ->
    arrays by name; of those that decode, kept(configuration) -> (layers, heads, size) of the keys that they keep."""
    make: typing.Callable
    call: typing.Callable
    feeds: typing.Callable
    kept: typing.Callable | None = None


def gpt2(is_small):
    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 512, "bos_token_id": 0, "eos_token_id": 0}
    sizes = sizes if is_small else {}
    return transformers.GPT2Model(transformers.GPT2Config(attn_implementation=ATTENTION, **sizes))


def llama(is_small):
    """Four layers with the sizes of Llama 3.2's of 1 B parameters, from hidden states."""
    sizes = {"hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192}
    if is_small:
        sizes = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 160}
    return transformers.LlamaModel(transformers.LlamaConfig(
        attn_implementation=ATTENTION, num_hidden_layers=2 if is_small else 4, vocab_size=8, max_position_embeddings=4096,
        **sizes))


def bert(is_small):
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128,
             "vocab_size": 512} if is_small else {}
    return transformers.BertModel(transformers.BertConfig(attn_implementation=ATTENTION, **sizes), add_pooling_layer=False)


def t5(is_small):
    """T5-base."""
    sizes = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
    if is_small:
        sizes = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4, "d_kv": 16, "vocab_size": 512}
    return transformers.T5Model(transformers.T5Config(**sizes))


def whisper(is_small):
    """Whisper base."""
    sizes = {"d_model": 512, "encoder_layers": 6, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048}
    if is_small:
        sizes = {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128,
                 "max_source_positions": 50}
    return WhisperEncoder(transformers.WhisperConfig(attn_implementation=ATTENTION, **sizes))


def clip(is_small):
    """ViT-B/32 and its text tower."""
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4} if is_small else {}
    vision = dict(text, image_size=64) if is_small else {}
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision,
                                                          attn_implementation=ATTENTION))


def hidden(module, **inputs):
    return (module(**inputs, use_cache=False).last_hidden_state,)


def ids(config, draw, batch, tokens):
    return {"ids": draw.integers(0, config.vocab_size, (batch, tokens))}


def sentence_feeds(config, draw, batch, tokens):
    """Two sentences a row."""
    kinds = np.broadcast_to(np.arange(tokens) >= tokens // 2, (batch, tokens)).astype(np.int64)
    return dict(ids(config, draw, batch, tokens), kinds=kinds)


def sentences(module, words, kinds):
    return (module(input_ids=words, token_type_ids=kinds).last_hidden_state,)


def embeddings(config, draw, batch, tokens):
    return {"x": normal(draw, batch, tokens, config.hidden_size)}


def normal(draw, *shape):
    return draw.standard_normal(shape, dtype=np.float32)


def decoder_feeds(config, draw, batch, tokens):
    """A quarter as many tokens as the encoder had."""
    return dict(ids(config, draw, batch, tokens // 4), x=normal(draw, batch, tokens, config.d_model))


def clip_feeds(config, draw, batch, tokens):
    side = config.vision_config.image_size
    last = config.text_config.eos_token_id  # of a text: what comes out is its hidden state
    words = draw.integers(0, last, (batch, tokens))
    words[:, -1] = last
    return {"ids": words, "pixels": normal(draw, batch, 3, side, side)}


def both_towers(module, words, pixels):
    result = module(input_ids=words, pixel_values=pixels)
    return result.text_embeds, result.image_embeds


class Kept(DynamicCache):
    """Keys and values of a fixed number of positions, the last of which is the token's own: it is written there, the others
    stay. A copy in exported models, whose inputs and outputs they are."""

    def __init__(self, states, position, is_exporting):
        super().__init__()
        self.states, self._position, self._is_exporting = list(states), position, is_exporting

    def update(self, keys, values, layer_idx, *unused, **named):
        for index, rows in ((2 * layer_idx, keys), (2 * layer_idx + 1, values)):
            state = self.states[index]
            if self._is_exporting:
                self.states[index] = torch.index_copy(state, 2, self._position, rows)
            else:
                state.index_copy_(2, self._position, rows)
        return self.states[2 * layer_idx], self.states[2 * layer_idx + 1]

    def get_seq_length(self, layer_idx=0):
        return self.states[0].shape[2] - 1

    def get_query_offset(self, layer_idx=0):
        return self.get_seq_length()

    def get_mask_sizes(self, query_length, layer_idx=0):
        return self.states[0].shape[2], 0


def decode(name):
    """The step of a stack whose one token is `name`; position [1] says where its keys go."""
    def call(module, token, position, *states, is_exporting=False):
        kept = Kept(states, position, is_exporting)
        word = "cache" if "cache" in inspect.signature(type(module).forward).parameters else "past_key_values"
        result = module(**{name: token, word: kept}, position_ids=position[None], use_cache=True).last_hidden_state
        return (result, *kept.states) if is_exporting else (result,)
    return call


def decode_feeds(given, kept):
    def feeds(config, draw, batch, tokens):
        layers, heads, size = kept(config)
        states = {f"{STATE}{i}": normal(draw, batch, heads, tokens, size) for i in range(2 * layers)}
        return dict(given(config, draw, batch, 1), position=np.array([tokens - 1]), **states)
    return feeds


def gpt2_kept(config):
    return config.n_layer, config.n_head, config.n_embd // config.n_head


def llama_kept(config):
    return config.num_hidden_layers, config.num_key_value_heads, config.hidden_size // config.num_attention_heads


NETWORKS = {
    "gpt2": Network(gpt2, lambda m, words: hidden(m, input_ids=words), ids),
    "gpt2_decode": Network(gpt2, decode("input_ids"), decode_feeds(ids, gpt2_kept), gpt2_kept),
    "llama": Network(llama, lambda m, x: hidden(m, inputs_embeds=x), embeddings),
    "llama_decode": Network(llama, decode("inputs_embeds"), decode_feeds(embeddings, llama_kept), llama_kept),
    "bert_base": Network(bert, sentences, sentence_feeds),
    "t5_encoder": Network(lambda is_small: t5(is_small).encoder, lambda m, words: hidden(m, input_ids=words), ids),
    "t5_decoder": Network(lambda is_small: t5(is_small).decoder,
                          lambda m, words, x: hidden(m, input_ids=words, encoder_hidden_states=x), decoder_feeds),
    "whisper_encoder": Network(whisper, lambda m, x: (m(x).last_hidden_state,), lambda config, draw, batch, tokens: {
        "x": normal(draw, batch, config.num_mel_bins, 2 * config.max_source_positions)}),
    "clip": Network(clip, both_towers, clip_feeds),
}


class Plain(torch.nn.Module):
    """From tensors to a tuple of tensors."""

    def __init__(self, network, module, **named):
        super().__init__()
        self.module, self._network, self._named = module, network, named

    def _apply(self, convert, *rest):
        """The frequencies of rotary embeddings stay f32, as they are where a model is loaded in f16."""
        wide = {part: part.inv_freq for part in self.modules() if hasattr(part, "inv_freq")}
        super()._apply(convert, *rest)
        for part, frequencies in wide.items():
            part.inv_freq = frequencies.to(part.inv_freq.device)
        return self

    def forward(self, *inputs):
        return self._network.call(self.module, *inputs, **self._named)


def build(spec, is_exporting=False):
    """The module of {"network": NAME, "seed": N, "small": bool}. Exported, those that decode give what they keep, too."""
    torch.manual_seed(spec["seed"])
    network = NETWORKS[spec["network"]]
    named = {"is_exporting": True} if network.kept and is_exporting else {}
    return Plain(network, network.make(spec["small"]), **named).eval()


def feeds(spec, module):
    """Inputs of the module by name, for spec's "batch" and "tokens"."""
    network = NETWORKS[spec["network"]]
    draw = np.random.default_rng(spec["seed"])
    return network.feeds(module.module.config, draw, spec["batch"], spec["tokens"])
