/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_reading.c - fuzzes the judge's side of reading: replies of a reader that was taken over.
 *
 * The first byte selects what is read. The rest is either a whole reply, or changes to a valid one:
 * a place in two bytes, then the byte to put there. */
#define _GNU_SOURCE
#include "fuzz_folder.h"

static const uint8_t *input;
static size_t         n_input;

static bool ask_changed(const void *reader, const ts_question *q, const ts_source *file,
                        ts_reply *r, ts_refusal *why)
{
    if (n_input >= sizeof(ts_reading)) { /* one byte more, too */
        r->n = n_input < sizeof r->bytes ? n_input : sizeof r->bytes;
        memcpy(r->bytes, input, r->n);
        return true;
    }
    ask_here(reader, q, file, r, why);
    for (size_t i = 0; i + 3 <= n_input; i += 3)
        r->bytes[(input[i] | (size_t)input[i + 1] << 8) % sizeof(ts_reading)] = input[i + 2];
    if (n_input % 3 == 1) r->n = input[n_input - 1] * r->n / 256; /* too short */
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct {
        const char *name, *text, *challenge;
    } what[] = {
        { "",
          "{\"name\":\"n\",\"author\":\"a\",\"challenge\":\"softmax_topk\",\"class\":\"host\","
          "\"language\":\"c\",\"sources\":[\"k.c\"],\"adapter\":\"k.h\"}",
          NULL },
        { "",
          "{\"name\":\"n\",\"author\":\"a\",\"challenge\":\"softmax_topk\",\"class\":"
          "\"sealed-gpu\",\"language\":\"cuda\",\"sources\":[\"k.cu\"],\"launch\":[{\"kernel\":"
          "\"k\",\"grid\":[\"1\"],\"block\":[\"1\"]}]}",
          NULL },
        { "/s.c", "#include <stdio.h>\nint ts_softmax_topk(void);", NULL },
        { "/s.md", "a\n```c\nint ts_softmax_topk(void) {}\n```\n", "softmax_topk" },
    };
    if (n == 0) return 0;
    const size_t k = data[0] % (sizeof what / sizeof *what);
    uint8_t     *copy = exact(data + 1, n - 1);
    input = copy;
    n_input = n - 1;
    lay_out();
    put(*what[k].name ? what[k].name + 1 : "entry.json", what[k].text, strlen(what[k].text));
    enter(what[k].name, ask_changed, what[k].challenge);
    free(copy);
    return 0;
}
