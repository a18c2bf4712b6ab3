/* SPDX-License-Identifier: Apache-2.0 */
/* framing.c - rejects requests whose end is ambiguous. */
#include "framing.h"

#include <string.h>
#include <strings.h>

enum { MOST_BYTES = 32768, MOST_HEADERS = 100 };

typedef struct seen {
    int         n, n_length, n_coding, n_host;
    size_t      n_bytes;
    const char *coding;
} seen;

static enum MHD_Result look(void *user, enum MHD_ValueKind kind, const char *name,
                            const char *value)
{
    seen *s = user;
    (void)kind;
    s->n++;
    s->n_bytes += strlen(name) + (value ? strlen(value) : 0);
    if (!strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) s->n_length++;
    if (!strcasecmp(name, MHD_HTTP_HEADER_HOST)) s->n_host++;
    if (!strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        s->n_coding++;
        s->coding = value ? value : "";
    }
    return MHD_YES;
}

bool ts_is_framed(struct MHD_Connection *c, ts_api_refusal *f)
{
    seen s = { 0 };
    MHD_get_connection_values(c, MHD_HEADER_KIND, look, &s);
    if (s.n > MOST_HEADERS || s.n_bytes > MOST_BYTES)
        return ts_api_refuse(f, 431, NULL,
                             "headers: got %d of %zu bytes, expected at most %d of %d", s.n,
                             s.n_bytes, MOST_HEADERS, MOST_BYTES);
    if (s.n_length + s.n_coding > 1)
        return ts_api_refuse(
            f, 400, NULL,
            "headers: got %d Content-Length and %d Transfer-Encoding, expected at most one of them",
            s.n_length, s.n_coding);
    if (s.coding && strcasecmp(s.coding, "chunked"))
        return ts_api_refuse(f, 400, NULL, "Transfer-Encoding: got '%.40s', expected chunked",
                             s.coding);
    if (s.n_host > 1) return ts_api_refuse(f, 400, NULL, "Host: got %d, expected one", s.n_host);
    return true;
}
