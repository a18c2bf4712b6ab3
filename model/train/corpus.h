/* SPDX-License-Identifier: Apache-2.0 */
/* corpus.h - a text in memory. Private. */
#ifndef TS_TRAIN_CORPUS_H
#define TS_TRAIN_CORPUS_H

#include "train_impl.h"

typedef struct ts_document {
    const char *text;
    size_t      n;
    uint64_t    hash;
    bool        held_out;
} ts_document;

struct ts_corpus {
    char           *text;
    ts_document    *document; /* in the order of the text */
    int64_t         n_document;
    uint64_t        seed;
    int64_t         length;   /* of a sequence */
    int32_t        *token[2]; /* to train on; held out */
    int64_t         n_token[2], room[2];
    ts_corpus_facts facts;
};

uint64_t ts_text_hash(uint64_t seed, const char *p, size_t n);

#endif
