/* SPDX-License-Identifier: Apache-2.0 */
/* entries_beam_search.c - the library's functions in the table with which a script is played. */
#include "beam_search_script.h"

#include "entries.h"

ENTRY(ts_beam_search)
ENTRY(ts_beam_search_archive)
QUERY(ts_beam_search_workspace)
QUERY(ts_beam_search_archive_workspace)
QUERY(ts_beam_search_host)
QUERY(ts_beam_search_archive_host)

static const ts_beam_table table = {
    any_ts_beam_search,           any_ts_beam_search_archive,
    any_ts_beam_search_workspace, any_ts_beam_search_archive_workspace,
    any_ts_beam_search_host,      any_ts_beam_search_archive_host,
};

const void *const ts_beam_search_entries = &table;
