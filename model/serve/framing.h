/* SPDX-License-Identifier: Apache-2.0 */
/* framing.h - where a request ends, by its headers (RFC 9112, section 6). */
#ifndef TS_SERVE_FRAMING_H
#define TS_SERVE_FRAMING_H

#include <microhttpd.h>

#include "api_ask.h"

/* False, and status 431, if there are too many headers; and status 400 if they leave in doubt where
 * the request ends, or name several hosts. A proxy may decide otherwise than this server, and pass
 * on a second request in the first one's body: the connection must be closed. */
bool ts_is_framed(struct MHD_Connection *c, ts_api_refusal *f);

#endif
