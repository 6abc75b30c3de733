/* SPDX-License-Identifier: GPL-2.0-only */
/* The functions of zfs.ko that this module calls, found and verified at load, and zfs.ko itself, pinned. */
#ifndef ZFS_BINDING_H
#define ZFS_BINDING_H

#include <linux/types.h>

struct module;

/* From /proc/kallsyms. */
struct zfs_addresses {
	unsigned long zvol_clone_range, dmu_read_l0_bps, dnode_block_freed, dnode_is_dirty, dnode_next_offset;
};

/*
 * Verifies the addresses and the loaded zfs module, pins it and makes the calls below possible. Refuses in any doubt and
 * says why in the kernel log.
 * Returns -EINVAL: an address is missing or is not the function's; -ENODEV: no zfs module, or it is not usable;
 * -ENOEXEC: a zfs module other than the one this module was built for.
 */
int zfs_binding_acquire(const struct zfs_addresses *addresses);
void zfs_binding_release(void);

/* The pinned zfs module. */
const struct module *zfs_binding_module(void);

/* zvol_clone_range() of module/zfs/zvol.c: 0 or a positive errno. clone.c says what it needs and does. */
int zfs_zvol_clone_range(void *source_zv, u64 source_offset, void *destination_zv, u64 destination_offset, u64 length);

/* dmu_read_l0_bps() of module/zfs/dmu.c: 0 or a positive errno; EAGAIN when a block is not on disk yet. */
int zfs_dmu_read_l0_bps(void *objset, u64 object, u64 offset, u64 length, void *block_pointers, size_t *count);

/* dnode_block_freed() of module/zfs/dnode.c: whether a transaction group that is not on disk yet frees the block. */
bool zfs_dnode_block_freed(void *dnode, u64 block);

/* dnode_is_dirty() there: whether anything of the object is not on disk yet. */
bool zfs_dnode_is_dirty(void *dnode);

/* dnode_next_offset() there, for data: *offset becomes that of the next block on disk that is no hole. 0; ESRCH: there is none. */
int zfs_dnode_next_data(void *dnode, u64 *offset);

#endif
