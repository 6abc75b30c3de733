/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_TRANSFERS_H
#define ZVAAI_FSAL_TRANSFERS_H

#include "fsal.h"

/*
 * Counts reads and writes of clients, with their bytes and duration (../vaai_nas/counters.h). Call it last on the operations that transfer
 * data: the duration then includes the wait for space.
 */
void transfers_operations_init(struct fsal_obj_ops *operations);

#endif
