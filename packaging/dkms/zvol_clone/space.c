// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared bytes by OpenZFS's block reference table (module/zfs/brt.c): for each top-level vdev a ZAP in the MOS has, by the offset of
 * a block's first DVA, how many references it has after the first. A count of entries for each 16 MiB of the vdev in memory shows
 * where nothing is shared, at the price of an array access.
 *
 * brt_maybe_exists() and brt_entry_get_refcount() are for syncing context: they read the tree of pending entries and the dnode
 * without a lock. We do as brt_prefetch() does: the entry counts under bv_lock, the ZAP under bv_mos_entries_lock.
 *
 * Block pointers are read from first-level indirect blocks, or from the dnode where it has one level. That makes no buffer for
 * any data block. A step processes 128 block pointers, and releases all locks at its end.
 */
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "space.h"
#include "zfs_binding.h"
#include "zfs_layout.h"

#define STEP_BLOCKS 128

/* Of include/sys/spa.h: blk_prop, and DVA words. */
#define MIN_BLOCK_SHIFT 9 /* SPA_MINBLOCKSHIFT: the unit of DVAs */
#define PROP_EMBEDDED BIT_ULL(39)
#define PROP_DEDUP BIT_ULL(62)
#define DVA_VDEV(words) ((words)[0] >> 32 & 0xffffff)
#define DVA_OFFSET(words) (((words)[1] & ~BIT_ULL(63)) << MIN_BLOCK_SHIFT)

static struct rw_semaphore *lock_of(void *structure, size_t offset)
{
	return &FIELD(structure, offset, struct rw_semaphore);
}

/* Whether the table has entries near the block. */
static bool near_shared(void *vdev, u64 range)
{
	bool near;

	down_read(lock_of(vdev, BV_LOCK));
	near = FIELD(vdev, BV_INITIATED, int) && range < FIELD(vdev, BV_SIZE, u64) && FIELD(vdev, BV_ENTCOUNT, u16 *)[range];
	up_read(lock_of(vdev, BV_LOCK));
	return near;
}

/* Whether the block has more than one reference. Returns 0 or a positive errno. */
static int is_shared(void *spa, const char *block_pointer, bool *shared)
{
	const u64 *words = (const u64 *)(block_pointer + BLKPTR_DVA);
	const u64 range_size = FIELD(spa, SPA_BRT_RANGESIZE, u64);
	void *vdev = NULL;
	u64 references = 0;
	int error = ENOENT;

	*shared = false;
	if (!range_size)
		return 0;
	down_read(lock_of(spa, SPA_BRT_LOCK));
	if (DVA_VDEV(words) < FIELD(spa, SPA_BRT_NVDEVS, u64))
		vdev = FIELD(spa, SPA_BRT_VDEVS, void **)[DVA_VDEV(words)];
	up_read(lock_of(spa, SPA_BRT_LOCK));
	if (!vdev || !near_shared(vdev, DVA_OFFSET(words) / range_size))
		return 0;
	down_read(lock_of(vdev, BV_MOS_ENTRIES_LOCK));
	if (FIELD(vdev, BV_MOS_ENTRIES, u64))
		error = zfs_zap_lookup(FIELD(vdev, BV_MOS_ENTRIES_DNODE, void *), DVA_OFFSET(words), &references);
	up_read(lock_of(vdev, BV_MOS_ENTRIES_LOCK));
	*shared = !error && references;
	return error == ENOENT ? 0 : error;
}

/* Adds one block. Returns 0 or a positive errno. */
static int add_block(void *spa, u64 newest_snapshot, const char *block_pointer, struct zvol_clone_space *request)
{
	const u64 *words = (const u64 *)(block_pointer + BLKPTR_DVA);
	const u64 properties = FIELD(block_pointer, BLKPTR_PROP, const u64);
	bool shared = false;
	u64 size;
	int error = 0;

	if (properties & PROP_EMBEDDED || (!words[0] && !words[1]))
		return 0;
	if (!(properties & PROP_DEDUP))
		error = is_shared(spa, block_pointer, &shared);
	if (error)
		return error;
	size = zfs_bp_get_dsize(spa, block_pointer);
	request->allocated += size;
	if (shared)
		request->shared += size;
	if (properties & PROP_DEDUP)
		request->deduplicated += size;
	if (FIELD(block_pointer, BLKPTR_LOGICAL_BIRTH, const u64) <= newest_snapshot)
		request->snapshot += size;
	return 0;
}

/* Copies the pointers of *count blocks, less where they end. dn_struct_rwlock is held. */
static void copy_of_dnode(void *dnode, u64 block, u64 *count, char *pointers)
{
	char *phys = FIELD(dnode, DN_PHYS, char *);
	void *dbuf = FIELD(dnode, DN_DBUF, void *);

	*count = min3(*count, (u64)STEP_BLOCKS, FIELD(phys, DNP_NBLKPTR, u8) - block);
	down_read(lock_of(dbuf, DB_RWLOCK));
	memcpy(pointers, phys + DNP_BLKPTR + block * BLKPTR_SIZE, *count * BLKPTR_SIZE);
	up_read(lock_of(dbuf, DB_RWLOCK));
}

/* The same with indirect blocks. Returns 0 or a positive errno; ENOENT: *count blocks are holes. */
static int copy_of_indirect(void *dnode, u64 block, u64 *count, char *pointers)
{
	const u64 each = (1ULL << FIELD(FIELD(dnode, DN_PHYS, char *), DNP_INDBLKSHIFT, u8)) / BLKPTR_SIZE;
	void *dbuf;
	int error;

	*count = min(*count, each - block % each);
	error = zfs_dbuf_hold_indirect(dnode, block / each, &dbuf);
	if (error)
		return error;
	*count = min_t(u64, *count, STEP_BLOCKS);
	down_read(lock_of(dbuf, DB_RWLOCK));
	memcpy(pointers, FIELD(dbuf, DB_DATA, char *) + block % each * BLKPTR_SIZE, *count * BLKPTR_SIZE);
	up_read(lock_of(dbuf, DB_RWLOCK));
	zfs_dbuf_release(dbuf);
	return 0;
}

/* Either, by what the dnode is on disk. */
static int copy_pointers(void *dnode, u64 block, u64 *count, char *pointers)
{
	char *phys;
	int error = 0;

	down_read(lock_of(dnode, DN_STRUCT_RWLOCK));
	phys = FIELD(dnode, DN_PHYS, char *);
	if (!FIELD(phys, DNP_NLEVELS, u8) || block > FIELD(phys, DNP_MAXBLKID, u64))
		error = ENOENT;
	else if (FIELD(phys, DNP_NLEVELS, u8) == 1)
		copy_of_dnode(dnode, block, count, pointers);
	else
		error = copy_of_indirect(dnode, block, count, pointers);
	up_read(lock_of(dnode, DN_STRUCT_RWLOCK));
	return error;
}

/* One step of a held dnode. Returns 0 or a positive errno. */
static int add_blocks(void *objset, void *dnode, struct zvol_clone_space *request, char *pointers)
{
	const u64 block_size = FIELD(dnode, DN_DATABLKSZ, u32);
	const u64 offset = request->offset + request->bytes_done, end = request->offset + request->length;
	const u64 block = offset / block_size;
	void *spa = FIELD(objset, OS_SPA, void *);
	void *dataset = FIELD(objset, OS_DSL_DATASET, void *);
	const u64 newest_snapshot = FIELD(FIELD(FIELD(dataset, DS_DBUF, char *), DB_DATA, char *), DS_PREV_SNAP_TXG, u64);
	u64 count = (end - 1) / block_size - block + 1, number;
	int error = copy_pointers(dnode, block, &count, pointers);

	request->dirty |= zfs_dnode_is_dirty(dnode);
	if (!request->txg)
		request->txg = zfs_spa_last_synced_txg(spa);
	if (error && error != ENOENT)
		return error;
	for (number = 0; !error && number < count; number++)
		error = add_block(spa, newest_snapshot, pointers + number * BLKPTR_SIZE, request);
	if (error && error != ENOENT)
		return error;
	request->bytes_done += min((block + count) * block_size, end) - offset;
	return 0;
}

static int step(struct zfs_object *object, struct zvol_clone_space *request, char *pointers)
{
	void *objset, *dnode;
	u64 number;
	int error;

	request->stopped = ZVOL_CLONE_REMOVED;
	objset = zfs_object_hold_objset(object, &number);
	if (!objset)
		return -ENXIO;
	request->stopped = ZVOL_CLONE_ZFS;
	error = zfs_dnode_hold(objset, number, &dnode);
	if (!error) {
		error = add_blocks(objset, dnode, request, pointers);
		zfs_dnode_release(dnode);
	}
	zfs_object_release_objset(object);
	if (error)
		return error > 0 && error <= MAX_ERRNO && error != EBADE /* ECKSUM of zfs */ ? -error : -EIO;
	request->stopped = ZVOL_CLONE_COMPLETE;
	return 0;
}

int space_of_range(struct zfs_object *object, struct zvol_clone_space *request)
{
	const u64 budget = request->budget ? min(request->budget, ZVOL_CLONE_SPACE_BUDGET) : ZVOL_CLONE_SPACE_BUDGET;
	const u64 begun = ktime_get_ns();
	char *pointers;
	unsigned int noio;
	u64 end;
	int error = 0;

	request->stopped = ZVOL_CLONE_OUT_OF_RANGE;
	if (!request->length || check_add_overflow(request->offset, request->length, &end) || end > S64_MAX)
		return -EINVAL;
	request->stopped = ZVOL_CLONE_NO_MEMORY;
	pointers = kvmalloc_array(STEP_BLOCKS, BLKPTR_SIZE, GFP_KERNEL_ACCOUNT);
	if (!pointers)
		return -ENOMEM;
	do {
		noio = memalloc_noio_save();
		error = step(object, request, pointers);
		memalloc_noio_restore(noio);
		cond_resched();
	} while (!error && request->bytes_done < request->length && !signal_pending(current) && ktime_get_ns() - begun < budget);
	kvfree(pointers);
	return error;
}
