# SPDX-License-Identifier: Apache-2.0
"""make_tokenizer.py TEXT - writes test/checkpoint/tokenizer: small vocabularies in the shapes of
real tokenizer.json files. Run once; the files are kept.

The shapes are SentencePiece by Prepend and Replace, by Metaspace of each scheme, and byte-level
with NFC; each comes with the tokens that Hugging Face's tokenizers gives.

    pip install tokenizers
    python test/make_tokenizer.py README.md"""
import json
import os
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "checkpoint", "tokenizer")
SPECIAL = ["<unk>", "<s>", "</s>"]
TEXTS = [
    "Hello, world!", "the kernel and the judge", " leading and trailing ", "  two  spaces\n\nlines\tand tabs \r\n", "",
    " ", "   ", "a", "<s>inside</s> and after", "</s></s> x", "a <mask>  b", "  <mask>", "\u00a0\u3000<mask>\u2009 wide",
    "<left> kept  <right> gone \t\n too", "x\u2581y \u2581", "na\u00efve caf\u00e9 \u2014 \u4f60\u597d", "\U0001f600\u200d\U0001f680 rocket",
    "nai\u0308ve cafe\u0301", "\u212b \u2126 \u1e9b\u0323", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\u0958 \u2adc \U0001d15e",
    "A\u0327\u030a\u0301 \u0344", "e\u0301<s>e\u0301", "1234567 3.14 the 12th", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\x01\x7f control",
]


def train(t, text, alphabet=(), first=()):
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIAL + list(first),
                                                    initial_alphabet=list(alphabet), show_progress=False))


def save(name, t):
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False, special=True),
                          AddedToken("<left>", lstrip=True, normalized=False, special=True),
                          AddedToken("<right>", rstrip=True, normalized=False, special=True)])
    t.save(os.path.join(OUT, name + ".json"), pretty=False)
    with open(os.path.join(OUT, name + ".tokens.json"), "w") as f:
        json.dump([{"text": s, "tokens": t.encode(s).ids} for s in TEXTS], f)
        f.write("\n")


def sentencepiece(name, text, normalizer, before):
    """Bytes are pieces of their own from the start, so that they stand for what has no piece."""
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if normalizer:
        t.normalizer = normalizer
    if before:
        t.pre_tokenizer = before
    train(t, text, first=["<0x%02X>" % i for i in range(256)])
    o = json.loads(t.to_str())
    o["added_tokens"] = [dict(a, normalized=False) for a in o["added_tokens"] if a["content"] in SPECIAL]
    t = Tokenizer.from_str(json.dumps(o))
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    save(name, t)


def main(path):
    with open(path, encoding="utf-8") as f:
        text = f.read().splitlines()
    os.makedirs(OUT, exist_ok=True)
    sentencepiece("prepend", text, normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None)
    for scheme in "first", "always", "never":
        sentencepiece(scheme, text, None, pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme == "always"))
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    train(t, text, pre_tokenizers.ByteLevel.alphabet())
    save("nfc", t)


main(sys.argv[1])
