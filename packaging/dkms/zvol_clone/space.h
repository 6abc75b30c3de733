/* SPDX-License-Identifier: GPL-2.0-only */
/* How much of a file or a zvol is allocated, and how much of that is shared. */
#ifndef SPACE_H
#define SPACE_H

#include "zfs_object.h"

struct zvol_clone_space;

/* Carries out @request on the object and sets its out fields. Returns 0 or a negative errno. zvol_clone.h is the contract. */
int space_of_range(struct zfs_object *object, struct zvol_clone_space *request);

#endif
