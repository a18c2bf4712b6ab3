/* SPDX-License-Identifier: Apache-2.0 */
/* class.h - what an entrant may do; shown beside every score. */
#ifndef TS_CLASS_H
#define TS_CLASS_H

typedef enum ts_class { TS_SEALED, TS_HOST, TS_PYTHON, TS_N_CLASSES } ts_class;

#endif
