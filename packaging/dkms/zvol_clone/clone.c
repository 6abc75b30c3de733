// SPDX-License-Identifier: GPL-2.0-only
/*
 * What zvol_clone_range() needs and does, as read in OpenZFS 2.3.9, module/zfs/zvol.c:
 * - Both zvols open: zv_objset and zv_dn are set by zvol_first_open() and zvol_setup_zv(). Our pinned files see to it.
 * - It takes zv_suspend_lock of the destination, then of the source, as reader, and the range locks (source reader,
 *   destination writer), all by itself. A caller must hold none of them: a second reader behind a waiting writer deadlocks.
 * - It opens the destination's ZIL when nothing was written yet (zv_zilog == NULL), as zvol_request_impl() does for a write.
 * - It does not look at ZVOL_RDONLY or ZVOL_REMOVING (zvol_request_impl() does): we must.
 * - It clamps the length to both volumes and returns 0: we check the bounds before and after.
 * - It logs TX_CLONE_RANGE (zvol_log_clone_range()) and commits the ZIL only under sync=always. A flush of the destination
 *   (fsync: REQ_OP_FLUSH, zvol_write(), zil_commit()) makes the clone durable.
 * - It knows nothing of the page cache of either block device.
 * - It allocates with KM_SLEEP holding locks that writeback to a zvol may need: zvol_request_impl() and zpl_ioctl.c mark the
 *   thread by spl_fstrans_mark(), which is memalloc_noio_save() here.
 * - A source block that is not on disk yet: dmu_read_l0_bps() (module/zfs/dmu.c) says EAGAIN. With zfs_bclone_wait_dirty=1,
 *   the default of 2.3.9, it then waits for a txg, uninterruptibly, with all its locks held. So we ask
 *   dmu_read_l0_bps() first, under the suspend lock of the source, and do not start on a dirty block. What remains: a writer
 *   of the source that comes in between our question and the range lock. It cannot be closed from outside: holding
 *   the range lock as reader ourselves deadlocks as soon as a writer queues. A caller who keeps writers off the range
 *   (as an iSCSI target does with range locks of its own) never waits. Without that the wait ends when the txg of that write
 *   is on disk: the open, the quiescing and the syncing one at the most, each pushed at once, not after
 *   zfs_txg_timeout; no new dirt can come, because the range lock then keeps writers out.
 * - dmu_tx_assign(DMU_TX_WAIT) may delay it like any write when the pool is behind.
 */
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "clone.h"
#include "volume.h"
#include "zfs_binding.h"
#include "zfs_layout.h"

/*
 * One step at a time per pool. Two clones in opposite directions each hold one suspend lock as reader and want the other;
 * with a writer queued on both (two zvols rolled back or received at once) neither would ever get it. Nothing else on
 * stock Linux calls zvol_clone_range(), so this is enough.
 */
#define POOL_MUTEX_BITS 4
static struct mutex pool_mutexes[1 << POOL_MUTEX_BITS];

struct clone {
	struct volume *source, *destination;
	struct mutex *pool_mutex;
	void *block_pointers;		/* room for a step's */
};

void clone_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(pool_mutexes); i++)
		mutex_init(&pool_mutexes[i]);
}

static const void *pool_of(struct volume *volume)
{
	void *objset = volume_hold_objset(volume);
	const void *pool;

	if (!objset)
		return NULL;
	pool = objset_pool(objset);
	volume_release_objset(volume);
	return pool;
}

static bool inside(const struct volume *volume, u64 offset, u64 length)
{
	u64 end;

	return !check_add_overflow(offset, length, &end) && end <= volume_current_size(volume);
}

/* Everything that can be refused before the first step. */
static int check(struct clone *clone, struct zvol_clone_range *request)
{
	struct volume *source = clone->source, *destination = clone->destination;
	const u64 from = request->source_offset, to = request->destination_offset, length = request->length;
	const void *pool;

	request->stopped = ZVOL_CLONE_READ_ONLY;
	if (volume_is_read_only(destination))
		return -EROFS;
	request->stopped = ZVOL_CLONE_REMOVED;
	pool = pool_of(source);
	if (!pool)
		return -ENXIO;
	request->stopped = ZVOL_CLONE_OTHER_POOL;
	if (pool != pool_of(destination))
		return -EXDEV;
	request->stopped = ZVOL_CLONE_OTHER_BLOCK_SIZE;
	if (source->block_size != destination->block_size)
		return -EINVAL;
	request->stopped = ZVOL_CLONE_UNALIGNED;
	if (!IS_ALIGNED(from | to | length, source->block_size))
		return -EINVAL;
	request->stopped = ZVOL_CLONE_OUT_OF_RANGE;
	if (!inside(source, from, length) || !inside(destination, to, length))
		return -EINVAL;
	request->stopped = ZVOL_CLONE_OVERLAP;
	if (source->zv == destination->zv && from < to + length && to < from + length)
		return -EINVAL;
	request->stopped = ZVOL_CLONE_COMPLETE;
	clone->pool_mutex = &pool_mutexes[hash_ptr(pool, POOL_MUTEX_BITS)];
	return 0;
}

/* Whether a block of the range is not on disk yet. Any other error is left for zvol_clone_range() to find under its locks. */
static bool is_dirty(struct clone *clone, void *objset, u64 offset, u64 length)
{
	size_t count = length / clone->source->block_size;

	return zfs_dmu_read_l0_bps(objset, ZVOL_OBJECT, offset, length, clone->block_pointers, &count) == EAGAIN;
}

/* How much of the range, from its start, is clean: all, or a part found by halving, or 0 when the first block is dirty. */
static u64 clean_length(struct clone *clone, void *objset, u64 offset, u64 length)
{
	const u32 block_size = clone->source->block_size;

	while (is_dirty(clone, objset, offset, length)) {
		if (length == block_size)
			return 0;
		length = max_t(u64, ALIGN_DOWN(length / 2, block_size), block_size);
	}
	return length;
}

static u64 dirty_length(struct clone *clone, void *objset, u64 offset, u64 limit)
{
	const u32 block_size = clone->source->block_size;
	u64 length = 0;

	while (length < limit && is_dirty(clone, objset, offset + length, block_size))
		length += block_size;
	return length;
}

/*
 * Clones the clean part of a step; *length becomes what was cloned. The pool's mutex is held, and for the calls that take
 * locks of a zvol no memory may be reclaimed by writing to a zvol.
 */
static int clone_clean(struct clone *clone, struct zvol_clone_range *request, u64 from, u64 to, u64 *length)
{
	void *objset = volume_hold_objset(clone->source);
	u64 clean;
	int error;

	request->stopped = ZVOL_CLONE_REMOVED;
	if (!objset)
		return -ENXIO;
	clean = clean_length(clone, objset, from, *length);
	if (!clean) {
		request->stopped = ZVOL_CLONE_DIRTY;
		request->dirty_length = dirty_length(clone, objset, from, *length);
	}
	volume_release_objset(clone->source);
	if (!clean)
		return -EAGAIN;
	*length = clean;
	if (!pool_of(clone->destination))
		return -ENXIO;
	request->stopped = ZVOL_CLONE_READ_ONLY;
	if (volume_is_read_only(clone->destination))
		return -EROFS;

	error = zfs_zvol_clone_range(clone->source->zv, from, clone->destination->zv, to, clean);
	switch (error) {
	case 0:
		request->stopped = ZVOL_CLONE_OUT_OF_RANGE;
		if (!inside(clone->source, from, clean) || !inside(clone->destination, to, clean))
			return -EINVAL;
		request->stopped = ZVOL_CLONE_COMPLETE;
		return 0;
	case EAGAIN:
		request->stopped = ZVOL_CLONE_DIRTY;
		return -EAGAIN;
	case EXDEV:
		request->stopped = ZVOL_CLONE_OTHER_KEY;
		return -EXDEV;
	case EBADE: /* ECKSUM of zfs */
		request->stopped = ZVOL_CLONE_ZFS;
		return -EIO;
	default:
		request->stopped = ZVOL_CLONE_ZFS;
		return error > 0 && error <= MAX_ERRNO ? -error : -EIO;
	}
}

static int invalidate(struct address_space *mapping, u64 offset, u64 length)
{
	return invalidate_inode_pages2_range(mapping, offset >> PAGE_SHIFT, (offset + length - 1) >> PAGE_SHIFT);
}

/*
 * One step with the page caches of the block devices kept true, as a direct write does it: dirty pages of both are written
 * first, those of the destination dropped. The invalidate lock keeps buffered reads from bringing the old data back meanwhile;
 * a buffered write that runs at the same time is ordered by nobody, and the second invalidation drops what it left clean.
 */
static int step(struct clone *clone, struct zvol_clone_range *request, u64 from, u64 to, u64 *length)
{
	struct address_space *source = clone->source->file->f_mapping;
	struct address_space *destination = clone->destination->file->f_mapping;
	unsigned int noio;
	int error;

	request->stopped = ZVOL_CLONE_PAGE_CACHE;
	error = filemap_write_and_wait_range(source, from, from + *length - 1);
	if (error)
		return error;
	filemap_invalidate_lock(destination);
	error = filemap_write_and_wait_range(destination, to, to + *length - 1);
	if (!error)
		error = invalidate(destination, to, *length);
	if (error)
		goto unlock;

	request->stopped = ZVOL_CLONE_SIGNAL;
	error = mutex_lock_interruptible(clone->pool_mutex);
	if (error)
		goto unlock;
	noio = memalloc_noio_save();
	error = clone_clean(clone, request, from, to, length);
	memalloc_noio_restore(noio);
	mutex_unlock(clone->pool_mutex);
	invalidate(destination, to, *length);
unlock:
	filemap_invalidate_unlock(destination);
	return error;
}

int clone_range(struct volume *source, struct volume *destination, struct zvol_clone_range *request)
{
	struct clone clone = { .source = source, .destination = destination };
	const u64 longest = max_t(u64, ZVOL_CLONE_STEP, source->block_size);
	int error = check(&clone, request);

	if (error || !request->length)
		return error;
	clone.block_pointers = kvmalloc_array(min(longest, request->length) / source->block_size, BLKPTR_SIZE, GFP_KERNEL);
	if (!clone.block_pointers) {
		request->stopped = ZVOL_CLONE_NO_MEMORY;
		return -ENOMEM;
	}
	while (request->bytes_done < request->length) {
		u64 length = min(longest, request->length - request->bytes_done);

		if (signal_pending(current)) {
			request->stopped = ZVOL_CLONE_SIGNAL;
			error = -EINTR;
			break;
		}
		error = step(&clone, request, request->source_offset + request->bytes_done,
			     request->destination_offset + request->bytes_done, &length);
		if (error)
			break;
		request->bytes_done += length;
		cond_resched();
	}
	kvfree(clone.block_pointers);
	return error;
}
