/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_SPACE_H
#define ZVAAI_FSAL_SPACE_H

#include "fsal.h"

/*
 * Replaces those operations that change what files take, so that the books (../fileops/space.h) hear of every change before it is
 * made. To be called after hidden_operations_init(), whose operations these call.
 */
void space_operations_init(struct fsal_obj_ops *operations);

#endif
