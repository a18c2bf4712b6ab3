/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4) of a block of memory. */
#ifndef TS_BASE_SHA256_H
#define TS_BASE_SHA256_H

#include <stddef.h>

void ts_sha256(const void *p, size_t n, unsigned char out[32]);
void ts_sha256_hex(const void *p, size_t n, char out[65]);

#endif
