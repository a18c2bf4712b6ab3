/* SPDX-License-Identifier: Apache-2.0 */
/* normalise.c - Unicode's NFC, by utf8proc. Without that library a text that may need NFC is
 * rejected: its tokens would differ from those that the model was trained with. */
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

#if TS_HAVE_UTF8PROC
#include <utf8proc.h>

bool ts_nfc(const char *text, size_t n, char **out, size_t *n_out, char why[TS_MODEL_WHY])
{
    utf8proc_uint8_t      *made = NULL;
    const utf8proc_ssize_t got = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                                              &made, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    *out = (char *)made;
    *n_out = got < 0 ? 0 : (size_t)got;
    return got >= 0 || ts_say(why, "cannot normalise: %s", utf8proc_errmsg(got));
}

#else

/* Below U+0300, which is the first combining mark, NFC changes nothing. */
bool ts_nfc(const char *text, size_t n, char **out, size_t *n_out, char why[TS_MODEL_WHY])
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0xcc)
            return ts_say(why,
                          "byte %zu: the tokenizer normalises (NFC), which needs a program "
                          "built with utf8proc",
                          i);
    *out = malloc(n + 1);
    if (!*out) return ts_say(why, "out of memory");
    memcpy(*out, text, n);
    *n_out = n;
    return true;
}

#endif
