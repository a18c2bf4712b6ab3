/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_serve.c - fuzzes the reader of a request's body.
 *
 * The first byte selects the path: chat, or completions. Rejected input must give one plain line
 * and a status of the client's; accepted input must be within the limits. */
#include "api_ask.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const ts_api_ask_limits limits = {
        .name = "m", .sampling = { 1, 0, 1, 7 }, .n_vocab = 9, .n_choice = 4
    };
    ts_api_ask     a;
    ts_api_refusal f;
    if (!n) return 0;
    char      *body = exact(data + 1, n - 1);
    const bool chat = data[0] == 'c', ok = ts_api_ask_read(body, n - 1, chat, &limits, &a, &f);
    free(body);
    if (!ok) {
        must(f.status == 400 || f.status == 404);
        must(*f.message && f.type);
        must_be_ascii(f.message);
        if (*f.param) must_be_ascii(f.param);
    } else {
        must(a.n >= 1 && a.n <= 4 && a.n_likely >= 0 && a.n_likely <= 9 && a.n_new >= -1);
        must(a.sampling.temperature >= 0 && a.sampling.temperature <= 2);
        must(a.sampling.top_p >= 0 && a.sampling.top_p <= 1 && a.sampling.top_k >= 0);
        for (int i = 0; i < a.n_stop; i++) must(*a.stop[i]);
        for (int64_t i = 0; i < a.n_message; i++) must(a.message[i].role && a.message[i].content);
        must(chat ? a.n_message > 0 : json_array_size(a.prompts) > 0);
    }
    ts_api_ask_free(&a);
    return 0;
}
