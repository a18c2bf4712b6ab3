/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant_beam.c - a mutant of beam_search as a third-party shared library. mutant.sh
 * compiles it once for each, with MUTANT. */
#include "beam_search_script.h"
#include "mutant_entrant.h"

TABLE_OF(ts_beam_table, beam_search)
CALL(beam_search, ts_beam_search, ts_beam_search_args, search)
CALL_WORKSPACE(beam_search, ts_beam_search, ts_beam_search_args, search)
CALL(beam_search, ts_beam_search_archive, ts_beam_search_args, archive)
CALL_WORKSPACE(beam_search, ts_beam_search_archive, ts_beam_search_args, archive)
