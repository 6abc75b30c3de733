/* SPDX-License-Identifier: GPL-2.0-only */
/* The functions of zfs.ko that this module calls, found and verified at load, and zfs.ko itself, pinned. */
#ifndef ZFS_BINDING_H
#define ZFS_BINDING_H

#include <linux/types.h>

struct module;

/* A field of a structure of zfs.ko; zfs_layout.h has the offsets. */
#define FIELD(structure, offset, type) (*(type *)((char *)(structure) + (offset)))

/* Every function that is called. To add a function: here, its type in zfs_binding.c, its prototype in zfs_layout.c. */
#define ZFS_FUNCTIONS(F) \
	F(zvol_clone_range) \
	F(dmu_read_l0_bps) \
	F(dnode_block_freed) \
	F(dnode_is_dirty) \
	F(dnode_next_offset) \
	F(dnode_hold) \
	F(dnode_rele) \
	F(dbuf_hold_impl) \
	F(dbuf_read) \
	F(dbuf_rele) \
	F(zap_lookup_uint64_by_dnode) \
	F(bp_get_dsize) \
	F(spa_last_synced_txg) \
	F(rrm_enter_read) \
	F(rrm_exit)

/* From /proc/kallsyms. */
struct zfs_addresses {
#define ADDRESS(function) unsigned long function;
	ZFS_FUNCTIONS(ADDRESS)
#undef ADDRESS
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

/* dnode_is_dirty() of module/zfs/dnode.c: whether anything of the object is not on disk yet. */
bool zfs_dnode_is_dirty(void *dnode);

/* dnode_next_offset() of module/zfs/dnode.c, for data: *offset becomes that of the next allocated block on disk. 0; ESRCH: no more data. */
int zfs_dnode_next_data(void *dnode, u64 *offset);

/* dnode_hold() and dnode_rele() of module/zfs/dnode.c: 0 or a positive errno; the object's type and block pointers can be read while it is held. */
int zfs_dnode_hold(void *objset, u64 object, void **dnode);
void zfs_dnode_release(void *dnode);

/*
 * Holds and reads the first-level indirect block @number of the dnode. dn_struct_rwlock is held as reader. 0 or a positive errno;
 * ENOENT: it is a hole.
 */
int zfs_dbuf_hold_indirect(void *dnode, u64 number, void **dbuf);
void zfs_dbuf_release(void *dbuf);

/* zap_lookup_uint64_by_dnode() of module/zfs/zap_micro.c, for a key of one word and a value of 8 bytes. 0 or a positive errno; ENOENT. */
int zfs_zap_lookup(void *dnode, u64 key, u64 *value);

/* bp_get_dsize() of module/zfs/spa_misc.c: bytes that the block takes, all copies, parity deflated as in st_blocks. */
u64 zfs_bp_get_dsize(void *spa, const void *block_pointer);

/* spa_last_synced_txg() of module/zfs/spa_misc.c. */
u64 zfs_spa_last_synced_txg(void *spa);

/* rrm_enter_read() and rrm_exit() of module/zfs/rrwlock.c. */
void zfs_teardown_enter(void *lock);
void zfs_teardown_exit(void *lock);

#endif
