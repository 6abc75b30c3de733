/* SPDX-License-Identifier: GPL-2.0-only */
/* Cloning a range between two proven zvols, step by step, and the map of one. */
#ifndef CLONE_H
#define CLONE_H

struct volume;
struct zvol_clone_extent;
struct zvol_clone_map;
struct zvol_clone_range;

/*
 * Carries out @request between the two volumes and sets its out fields. Returns 0 or a negative errno.
 * zvol_clone.h is the contract.
 */
int clone_range(struct volume *source, struct volume *destination, struct zvol_clone_range *request);
void clone_init(void);

/* Carries out @request on the volume; @extents has room for request->most, at most ZVOL_CLONE_MAP_BLOCKS. As clone_range(). */
int map_range(struct volume *volume, struct zvol_clone_map *request, struct zvol_clone_extent *extents);

#endif
