/* SPDX-License-Identifier: Apache-2.0 */
/* play_tree_verify.c - the Python interface of tree_verify: a function that is called once per
 * cycle. */
#include "ask.h"
#include "tree_verify_script.h"

static const ts_tree_play_args *args;

static void begin(const void *a)
{
    args = a;
}

static void back_list(int32_t *to, int64_t most, int64_t *n)
{
    ts_value *const v = ts_back(TS_LIST, to);
    v->extent[0] = most;
    v->more = n;
}

static ts_status verify(const void *a, const ts_exec *x)
{
    const ts_tree_verify_args *const v = a;
    (void)x;
    ts_ask_begin("", TS_ASK_FUNCTION, (ts_refusals) { .arithmetic = TS_E_MODEL });
    ts_value *const model = ts_give("model", TS_MODEL);
    model->data = v->model;
    model->integer = args->word[TS_TOY_HOW] == TS_NONFINITE_FAILS;
    ts_give_array("prompt", TS_LENT, ts_array('i', v->prompt, 1, v->d.prompt_len, 0, 0));
    ts_give_array("token", TS_LENT, ts_array('i', v->token, 1, v->d.n_node, 0, 0));
    ts_give_array("parent", TS_LENT, ts_array('i', v->parent, 1, v->d.n_node, 0, 0));
    ts_give_integer("max_new", v->d.max_new);
    ts_give_real("temperature", v->d.temperature);
    ts_give_array("u", TS_LENT, ts_array('d', v->u, 1, v->d.max_new, 0, 0));
    back_list(v->out, v->d.max_new, v->n_out);
    back_list(v->path, v->d.n_node, v->n_path);
    ts_back_array(ts_array('B', v->status, 1, v->d.n_node, 0, 0));
    return ts_ask();
}

static const ts_tree_table table = { verify, NULL, NULL, NULL, NULL, NULL };
const ts_python            ts_python_tree_verify = { &table, begin };
