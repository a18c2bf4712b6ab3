/* SPDX-License-Identifier: Apache-2.0 */
/* entries_kv_cache.c - the library's functions in the table with which a script is played. */
#include "kv_cache_script.h"

#include "entries.h"

static const ts_kv_table table = {
    ts_kv_bytes, ts_kv_create, ts_kv_destroy, ts_kv_open, ts_kv_fork,   ts_kv_truncate,
    ts_kv_free,  ts_kv_append, ts_kv_attend,  ts_kv_read, ts_kv_status, ts_kv_attend_tree,
};

const void *const ts_kv_cache_entries = &table;
