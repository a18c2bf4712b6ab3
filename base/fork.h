/* SPDX-License-Identifier: Apache-2.0 */
/* fork.h - lets a process fork after a call in several threads. */
#ifndef TS_FORK_H
#define TS_FORK_H

void ts_fork_prepare(void); /* before the first parallel region; later calls do nothing */

#endif
