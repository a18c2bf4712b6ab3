# SPDX-License-Identifier: Apache-2.0
"""make_checkpoint.py OUT TEXT - writes tiny random checkpoints and tokenizers with Hugging Face's
own libraries, and the logits and tokens that these give.

test/checkpoint/ contains its output, so that tests need none of torch, transformers and tokenizers.
The tokenizers learn from TEXT."""
import json
import os
import sys

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

ROWS = [0, 7, 22]
TEXTS = [
    "Hello, world!",
    "  two  spaces\n\n\nand lines \t\r\n end ",
    "It's the DOG'S; they'll've 1234567 reasons, 3.14",
    "na\u00efve caf\u00e9 \u2014 \u4f60\u597d\uff0c\u4e16\u754c \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u0663\u0664 \U0001f600\u200d",
    "<|begin|>special<|end|> inside <|end",
    "",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SMALL = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)


def configs():
    t = transformers
    llama3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                  high_freq_factor=4.0, original_max_position_embeddings=32)
    yield "qwen3", torch.float32, t.Qwen3Config(head_dim=8, tie_word_embeddings=True,
                                                eos_token_id=1, vocab_size=320, **SMALL)
    yield "llama", torch.bfloat16, t.LlamaConfig(rope_parameters=llama3, eos_token_id=[1, 2],
                                                 attention_bias=True, vocab_size=320, **SMALL)
    yield "qwen2", torch.float16, t.Qwen2Config(vocab_size=64, **SMALL)
    yield "mistral", torch.bfloat16, t.MistralConfig(sliding_window=6, head_dim=8, vocab_size=64, **SMALL)
    yield "starcoder2", torch.float32, t.Starcoder2Config(sliding_window=None, vocab_size=64,
                                                            eos_token_id=2, bos_token_id=1, **SMALL)


def randomise(model):
    """Gains that are not one and biases that are not zero."""
    g = torch.Generator().manual_seed(7)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        p.data = (1 + 0.2 * noise if "norm" in name and name.endswith("weight") else 0.15 * noise)


def checkpoint(folder, dtype, config):
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config)
    randomise(model)
    shard = "10KB" if dtype == torch.float16 else "1GB"  # one of them in several files
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    for name in os.listdir(folder):
        os.chmod(f"{folder}/{name}", 0o644)
        if name == "generation_config.json":
            os.remove(f"{folder}/{name}")
    g = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, config.vocab_size, (23,), generator=g).tolist()
    golden = {"made_by": f"transformers {transformers.__version__}, torch {torch.__version__}",
              "tokens": tokens, "rows": ROWS}
    for name, kind in (("f32", torch.float32), ("f64", torch.float64)):
        # read again: to(dtype) would have rounded the rotation's frequencies too
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=kind, attn_implementation="eager")
        with torch.no_grad():
            out = model(torch.tensor([tokens])).logits[0]
        golden[name] = [[round(float(v), 10) for v in out[r]] for r in ROWS]
    with open(folder + "/golden.json", "w") as f:
        json.dump(golden, f)
        f.write("\n")


def tokenizer(folder, text, before, after):
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = before
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<|begin|>", "<|end|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if after:
        t.post_processor = after
    t.save(folder + "/tokenizer.json", pretty=False)
    with open(folder + "/tokens.json", "w") as f:
        json.dump([{"text": s, "tokens": t.encode(s).ids} for s in TEXTS], f)
        f.write("\n")


def main(out, path):
    with open(path, encoding="utf-8") as f:
        text = f.read().splitlines()[:400]
    for name, dtype, config in configs():
        os.makedirs(f"{out}/{name}", exist_ok=True)
        checkpoint(f"{out}/{name}", dtype, config)
    level = pre_tokenizers.ByteLevel
    tokenizer(f"{out}/qwen3", text, pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(QWEN), "isolated"),
        level(add_prefix_space=False, use_regex=False)]), None)
    tokenizer(f"{out}/starcoder2", text, pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), level(add_prefix_space=False)]), None)
    tokenizer(f"{out}/llama", text, level(add_prefix_space=False), processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
