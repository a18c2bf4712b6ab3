/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - the structs and constants that python/runner.py shares with C, as text for the build.
 *
 * It is compiled and never run, so that it works for any machine: cmake/layout.cmake finds the text
 * in the object file and writes it into the runner. A member has its offset, its size, and the
 * letter of its elements in Python's module struct. A record is a list of members of one struct. */
#include <stddef.h>

#include "ask.h"
#include "call.h"
#include "touchstone/model.h"

/* Of an array, which is a pointer here, or of a number. Pointers to others are numbers, too. */
#define LETTER(x)                                                                                  \
    _Generic((x), char *: 's', int32_t: 'i', int32_t *: 'i', uint32_t: 'I', int64_t: 'q',          \
             int64_t *: 'q', uint64_t: 'Q', double: 'd', default: 'Q')
#define TEXT(...) ".pushsection .ts_layout\n.ascii \"ts_layout " __VA_ARGS__ "\\n\"\n.popsection"
#define MEMBER(record, type, member)                                                               \
    __asm__ volatile(TEXT("member " #record " %c0 %c1 %c2")                                        \
                     :                                                                             \
                     : "i"(offsetof(type, member)), "i"(sizeof((type *)0)->member),                \
                       "i"(LETTER(((type *)0)->member)))
#define NUMBER(name, value)       __asm__ volatile(TEXT("number " #name " %c0") : : "i"((int64_t)(value)))
#define SIZE(record, type)        NUMBER(record, sizeof(type))
#define PLACE(name, type, member) NUMBER(name, offsetof(type, member))

void ts_layout_page(void);
void ts_layout_slot(void);
void ts_layout_player(void);
void ts_layout_constants(void);

void ts_layout_page(void)
{
    PLACE(ready, ts_control, ready);
    PLACE(done, ts_control, done);
    MEMBER(answer, ts_control, answer.status);
    MEMBER(answer, ts_control, answer.fp);
    MEMBER(answer, ts_control, answer.n_bytes);
    MEMBER(reason, ts_control, error.reason);
    MEMBER(held, ts_control, error.held);
    MEMBER(text, ts_control, error.text);
    MEMBER(call, ts_control, call.verb);
    MEMBER(call, ts_control, call.slot);
    MEMBER(threads, ts_control, call.exec.n_threads);
    MEMBER(script, ts_control, script);
    MEMBER(nothing, ts_control, nothing);
    PLACE(args, ts_control, args);
    NUMBER(args_bytes, TS_CALL_ARGS);
    PLACE(shapes, ts_control, shape);
    PLACE(plan, ts_control, plan);
    MEMBER(counts, ts_control, plan.n_threads);
    MEMBER(counts, ts_control, plan.n_slots);
    MEMBER(counts, ts_control, plan.n_maps);
    MEMBER(birth, ts_control, plan.birth);
    MEMBER(file, ts_control, plan.symbol);
    MEMBER(task, ts_control, plan.task);
    MEMBER(folder, ts_control, plan.folder);
    PLACE(slots, ts_control, plan.slot);
    PLACE(maps, ts_control, plan.map);
    SIZE(control_bytes, ts_control);
}

void ts_layout_slot(void)
{
    SIZE(slot_bytes, ts_call_slot);
    MEMBER(slot, ts_call_slot, n_bufs);
    MEMBER(slot, ts_call_slot, n_scalars);
    MEMBER(slot, ts_call_slot, integers);
    PLACE(bufs, ts_call_slot, buf);
    PLACE(scalars, ts_call_slot, scalar);
    SIZE(buf_bytes, ts_call_buf);
    MEMBER(buf, ts_call_buf, name);
    MEMBER(buf, ts_call_buf, role);
    MEMBER(buf, ts_call_buf, dtype);
    MEMBER(buf, ts_call_buf, n_rows);
    MEMBER(buf, ts_call_buf, n_cols);
    MEMBER(buf, ts_call_buf, row_stride);
    MEMBER(buf, ts_call_buf, offset);
    MEMBER(buf, ts_call_buf, n_bytes);
    SIZE(scalar_bytes, ts_call_scalar);
    MEMBER(scalar, ts_call_scalar, name);
    MEMBER(scalar, ts_call_scalar, value);
    SIZE(shape_bytes, ts_call_shape);
    MEMBER(shape, ts_call_shape, n_axes);
    MEMBER(shape, ts_call_shape, extent);
    SIZE(map_bytes, ts_map);
    MEMBER(map, ts_map, address);
    MEMBER(map, ts_map, bytes);
    MEMBER(map, ts_map, offset);
    MEMBER(map, ts_map, outputs);
    SIZE(kept_bytes, ts_kept);
    MEMBER(kept, ts_kept, slot);
    MEMBER(kept, ts_kept, buf);
    MEMBER(kept, ts_kept, n_mapped);
    MEMBER(kept, ts_kept, offset);
    MEMBER(kept, ts_kept, writable);
    MEMBER(kept, ts_kept, n_left);
}

void ts_layout_player(void)
{
    SIZE(asked_bytes, ts_asked);
    MEMBER(asked, ts_asked, name);
    MEMBER(asked, ts_asked, object);
    MEMBER(asked, ts_asked, drop);
    MEMBER(asked, ts_asked, ragged);
    MEMBER(asked, ts_asked, refusal);
    MEMBER(asked, ts_asked, n_given);
    MEMBER(asked, ts_asked, n_back);
    PLACE(given, ts_asked, given);
    PLACE(back, ts_asked, back);
    SIZE(value_bytes, ts_value);
    MEMBER(value, ts_value, name);
    MEMBER(value, ts_value, kind);
    MEMBER(value, ts_value, letter);
    MEMBER(value, ts_value, n_axes);
    MEMBER(value, ts_value, extent);
    MEMBER(value, ts_value, integer);
    MEMBER(value, ts_value, real);
    MEMBER(value, ts_value, data);
    MEMBER(value, ts_value, more);
    SIZE(model_bytes, ts_model);
    MEMBER(model, ts_model, self);
    MEMBER(model, ts_model, n_vocab);
    MEMBER(model, ts_model, next);
    MEMBER(model, ts_model, forward);
}

void ts_layout_constants(void)
{
    NUMBER(bufs_most, TS_CALL_BUFS);
    NUMBER(missing, TS_STOP_MISSING);
    NUMBER(unsupported, TS_E_UNSUPPORTED);
    NUMBER(run, TS_VERB_RUN);
    NUMBER(landlock, TS_HELD_LANDLOCK);
    NUMBER(unsafe, TS_BORN_UNSAFE);
    NUMBER(object_fd, TS_FD_OBJECT);
    NUMBER(player_fd, TS_FD_BUFFERS);
    NUMBER(f32, TS_F32);
    NUMBER(f64, TS_F64);
    NUMBER(f16, TS_F16);
    NUMBER(bf16, TS_BF16);
    NUMBER(u8, TS_U8);
    NUMBER(i32, TS_I32);
    NUMBER(INTEGER, TS_INTEGER);
    NUMBER(REAL, TS_REAL);
    NUMBER(TEXT, TS_TEXT);
    NUMBER(LENT, TS_LENT);
    NUMBER(LIST, TS_LIST);
    NUMBER(LISTS, TS_LISTS);
    NUMBER(RECORD, TS_RECORD);
    NUMBER(MODEL, TS_MODEL);
}
