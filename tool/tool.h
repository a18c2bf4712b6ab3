/* SPDX-License-Identifier: Apache-2.0 */
/* tool.h - the subcommands, each in its own file. */
#ifndef TS_TOOL_H
#define TS_TOOL_H

#include "cli.h"

/* ---- subcommands ---- */

int ts_tool_judge(int argc, char **argv);
int ts_tool_check(int argc, char **argv);
int ts_tool_bench(int argc, char **argv);
int ts_tool_list(int argc, char **argv);
int ts_tool_report(int argc, char **argv);
int ts_tool_new(int argc, char **argv);
int ts_tool_generate(int argc, char **argv);
int ts_tool_evaluate(int argc, char **argv);
int ts_tool_chat(int argc, char **argv);
int ts_tool_serve(int argc, char **argv);
int ts_tool_train(int argc, char **argv);
int ts_tool_plan(int argc, char **argv);

/* `touchstone judge --selfcheck`: the guarantees of this machine and, if there is one, of its
 * device. */
struct ts_survey;
int ts_selfcheck(const struct ts_survey *device, const char *json);

/* Writes DIR/index.html: a temporary file that is renamed, so that no reader sees half a page.
 * Returns an exit status. */
struct ts_records;
struct ts_board;
int ts_page_to(const struct ts_records *r, const struct ts_board *b, const char *dir);

#endif
