/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - escapes untrusted text for a terminal. */
#include "show.h"

#include <stdio.h>
#include <string.h>

int ts_utf8(const char *s, size_t n, uint32_t *code)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char  *u = (const unsigned char *)s;
    if (!n) return 0;
    const int len = u[0] < 0x80       ? 1
                    : u[0] >> 5 == 6  ? 2
                    : u[0] >> 4 == 14 ? 3
                    : u[0] >> 3 == 30 ? 4
                                      : 0;
    if (!len || (size_t)len > n) return 0;
    uint32_t c = len == 1 ? u[0] : u[0] & (0x7fu >> len);
    for (int i = 1; i < len; i++) {
        if (u[i] >> 6 != 2) return 0;
        c = c << 6 | (u[i] & 63u);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *code = c;
    return len;
}

bool ts_hostile(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x61c || c == 0xfeff ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe0fff);
}

void ts_escape(uint32_t c, char out[13])
{
    if (c < 0x10000) snprintf(out, 13, "\\u%04x", c & 0xffffu);
    else
        snprintf(out, 13, "\\u%04x\\u%04x", (0xd800u + ((c - 0x10000) >> 10)) & 0xffffu,
                 0xdc00u + (c & 0x3ffu));
}

size_t ts_show(const char *s, size_t n, char *out, size_t n_out)
{
    size_t o = 0;
    if (n_out == 0) return 0;
    while (n) {
        char         escaped[13];
        uint32_t     c = 0xfffd;
        const size_t whole = (size_t)ts_utf8(s, n, &c), used = whole ? whole : 1;
        const bool   plain = whole && !ts_hostile(c);
        if (!plain) ts_escape(c, escaped);
        const size_t more = plain ? used : strlen(escaped);
        if (o + more >= n_out) break;
        memcpy(out + o, plain ? s : escaped, more);
        o += more;
        s += used;
        n -= used;
    }
    out[o] = 0;
    return o;
}
