# SPDX-License-Identifier: Apache-2.0
"""make_gguf.py - writes test/checkpoint/gguf from the checkpoints in its parent folder, with the
package gguf from PyPI. Run once; the files are kept.

The same weights and vocabularies as GGUF files, and one file with a tensor in every format, with
the values that the package decodes from it.

    pip install gguf numpy
    python test/make_gguf.py"""
import glob
import json
import os

import gguf
import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "checkpoint")
LAYER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}
MODEL = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def rename(name):
    stem, suffix = name.rsplit(".", 1)
    if stem in MODEL:
        return "%s.%s" % (MODEL[stem], suffix)
    layer, part = stem[len("model.layers."):].split(".", 1)
    return "blk.%s.%s.%s" % (layer, LAYER[part], suffix)


def to_pairs(x, n_head):
    """Channels i and i + half of a head become 2i and 2i + 1, as files of this architecture have them."""
    half = x.shape[0] // n_head // 2
    return x.reshape(n_head, 2, half, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def tensors(folder):
    for path in sorted(glob.glob(folder + "/*.safetensors")):
        with open(path, "rb") as f:
            n = int.from_bytes(f.read(8), "little")
            header, data = json.loads(f.read(n)), f.read()
        for name, t in header.items():
            if name == "__metadata__":
                continue
            raw = data[slice(*t["data_offsets"])]
            x = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[t["dtype"]])
            if t["dtype"] == "BF16":
                x = (x.astype(np.uint32) << 16).view(np.float32)
            yield name, t["dtype"], x.astype(np.float32).reshape(t["shape"])


def add(w, name, dtype, x):
    """Matrices of 16 bits stay so; vectors are floats, as in real files."""
    if dtype == "F32" or x.ndim == 1:
        w.add_tensor(name, x)
        return
    raw = x.astype(np.float16) if dtype == "F16" else (x.view(np.uint32) >> 16).astype(np.uint16)
    raw = np.ascontiguousarray(raw).view(np.uint8).reshape(x.shape[0], -1)
    w.add_tensor(name, raw, raw_shape=raw.shape, raw_dtype=gguf.GGMLQuantizationType[dtype])


def vocabulary(w, folder, pre, config):
    path = folder + "/tokenizer.json"
    n = config["vocab_size"]
    tokens, kinds, merges = ["<unused%d>" % i for i in range(n)], [gguf.TokenType.UNUSED] * n, []
    if os.path.exists(path):
        with open(path) as f:
            t = json.load(f)
        tokens = ["<unused%d>" % i for i in range(max(n, len(t["model"]["vocab"])))]
        kinds = [gguf.TokenType.UNUSED] * len(tokens)
        for piece, i in t["model"]["vocab"].items():
            tokens[i], kinds[i] = piece, gguf.TokenType.NORMAL
        for a in t["added_tokens"]:
            tokens[a["id"]], kinds[a["id"]] = a["content"], gguf.TokenType.CONTROL
        merges = [m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]]
        w.add_add_bos_token(bool(t.get("post_processor")))
        w.add_bos_token_id(0)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges(merges or ["a b"])
    w.add_eos_token_id(1)


def model(name, arch, pre):
    folder = os.path.join(HERE, name)
    with open(folder + "/config.json") as f:
        c = json.load(f)
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    dim = c.get("head_dim") or c["hidden_size"] // heads
    w = gguf.GGUFWriter(os.path.join(HERE, "gguf", name + ".gguf"), arch)
    w.add_block_count(c["num_hidden_layers"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_key_length(dim)
    w.add_value_length(dim)
    w.add_rope_dimension_count(dim)
    w.add_vocab_size(c["vocab_size"])
    if arch == "starcoder2":
        w.add_layer_norm_eps(c["norm_epsilon"])
    else:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    rope = c["rope_parameters"]
    w.add_rope_freq_base(rope["rope_theta"])
    if c.get("sliding_window"):
        w.add_sliding_window(c["sliding_window"])
    if rope["rope_type"] == "llama3":
        f = rope["rope_theta"] ** -(np.arange(dim // 2) * 2.0 / dim)
        turns = rope["original_max_position_embeddings"] * f / (2 * np.pi)
        share = np.clip((turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"]), 0, 1)
        w.add_tensor("rope_freqs.weight", (1 / ((1 - share) / rope["factor"] + share)).astype(np.float32))
    vocabulary(w, folder, pre, c)
    for key, dtype, x in tensors(folder):
        if arch == "llama" and ".q_proj." in key:
            x = to_pairs(x, heads)
        if arch == "llama" and ".k_proj." in key:
            x = to_pairs(x, kv)
        add(w, rename(key), dtype, np.ascontiguousarray(x))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


FORMATS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0"]
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208], "TQ1_0": [52], "TQ2_0": [64]}


def blocks():
    """Two rows of 512 in each format: any bytes, with scales that are finite."""
    random = np.random.default_rng(7)
    w = gguf.GGUFWriter(os.path.join(HERE, "gguf", "blocks.gguf"), "llama")
    for name in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        n, size = gguf.GGML_QUANT_SIZES[kind]
        if name in SCALES:
            raw = random.integers(0, 256, (2, 512 // n, size), dtype=np.uint8)
            if name == "TQ2_0":
                raw[..., :64] = random.integers(0, 3, (2, 2, 64, 4), dtype=np.uint8) @ np.array([1, 4, 16, 64], np.uint8)
            if name == "TQ1_0":
                raw[..., :52] = (random.integers(0, 243, (2, 2, 52)) * 256 + 242) // 243
            for at in SCALES[name]:
                raw[..., at:at + 2] = random.normal(0, 0.1, (2, 512 // n, 1)).astype(np.float16).view(np.uint8)
            raw = raw.reshape(2, -1)
        else:
            x = random.normal(0, 1, (2, 512)).astype(np.float32)
            raw = {"F32": x, "F16": x.astype(np.float16), "BF16": (x.view(np.uint32) >> 16).astype(np.uint16)}[name]
            raw = raw.view(np.uint8).reshape(2, -1)
        w.add_tensor(name, raw, raw_shape=raw.shape, raw_dtype=kind)
        w.add_tensor(name + ".f32", gguf.quants.dequantize(raw, kind).reshape(2, 512).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


os.makedirs(os.path.join(HERE, "gguf"), exist_ok=True)
model("llama", "llama", "gpt-2")
model("mistral", "llama", "default")
model("qwen2", "qwen2", "qwen2")
model("qwen3", "qwen3", "qwen2")
model("starcoder2", "starcoder2", "starcoder")
blocks()
