/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.h - changes single expressions of the obvious solutions of proof/plain/, at their points.
 *
 * To be included before one of them. Where POINT_name is defined as `~, MACRO`, HOOK(name, x) is
 * MACRO(x), which may use the variables around it; elsewhere it is x. HERE(name) is MACRO(), or
 * nothing. */
#ifndef HOOKS_H
#define HOOKS_H

#define SECOND(first, second, ...) second
#define CHOSEN(...)                SECOND(__VA_ARGS__)
#define SAME(...)                  (__VA_ARGS__)
#define NOTHING(...)               ((void)0)
#define HOOK(point, ...)           CHOSEN(POINT_##point, SAME, ~)(__VA_ARGS__)
#define HERE(point)                CHOSEN(POINT_##point, NOTHING, ~)()

#endif
