// SPDX-License-Identifier: GPL-2.0-only
/*
 * What zvol_clone_range() needs and does, as read in OpenZFS 2.3.9, module/zfs/zvol.c:
 * - Both zvols open: zv_objset and zv_dn are set by zvol_first_open() and zvol_setup_zv(). Our pinned files see to it.
 * - It takes zv_suspend_lock of the destination, then of the source, as reader, and the range locks (source reader,
 *   destination writer), all by itself. A caller must hold none of them: a second reader behind a waiting writer deadlocks.
 * - It opens the destination's ZIL when nothing was written yet (zv_zilog == NULL), as zvol_request_impl() does for a write.
 * - It does not check ZVOL_RDONLY or ZVOL_REMOVING (zvol_request_impl() does): we must.
 * - It clamps the length to both volumes and returns 0: we check the bounds before and after.
 * - It logs TX_CLONE_RANGE (zvol_log_clone_range()) and commits the ZIL only under sync=always. A flush of the destination
 *   (fsync: REQ_OP_FLUSH, zvol_write(), zil_commit()) makes the clone durable.
 * - It knows nothing of the page cache of either block device.
 * - It allocates with KM_SLEEP holding locks that writeback to a zvol may need: zvol_request_impl() and zpl_ioctl.c mark the
 *   thread by spl_fstrans_mark(), which is memalloc_noio_save() here.
 * - A source block that is not on disk yet: dmu_read_l0_bps() (module/zfs/dmu.c) says EAGAIN. With zfs_bclone_wait_dirty=1,
 *   the default of 2.3.9, it then waits for a txg, uninterruptibly, with all its locks held. So we call
 *   dmu_read_l0_bps() first, under the suspend lock of the source, and do not start on a dirty block. What remains: a writer
 *   of the source that comes in between our question and the range lock. It cannot be closed from outside: holding
 *   the range lock as reader ourselves deadlocks as soon as a writer queues. A caller who keeps writers off the range
 *   (as an iSCSI target does with its range locks) never waits. Without that the wait ends when the txg of that write
 *   is on disk: the open, the quiescing and the syncing one at the most, each pushed at once, not after
 *   zfs_txg_timeout; no new dirt can come, because the range lock then keeps writers out.
 * - A source block that was discarded, where the discard is not on disk yet: dmu_read_l0_bps() of 2.3.9 gives its old block
 *   pointer (openzfs#16012, #18853). We call dnode_block_freed() as well, and treat such a block as dirty.
 * - dmu_tx_assign(DMU_TX_WAIT) may delay it like any write when the pool is behind.
 */
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "clone.h"
#include "volume.h"
#include "zfs_binding.h"
#include "zfs_layout.h"

/*
 * One step at a time per pool. Two clones in opposite directions each hold one suspend lock as reader and wait for the other;
 * with a writer queued on both (two zvols rolled back or received at once) neither would ever get it. Nothing else on
 * stock Linux calls zvol_clone_range(), so this is enough. A pool that hangs keeps its mutex, so
 * there are many: two pools hardly ever have the same one.
 */
#define POOL_MUTEX_BITS 10
static struct mutex pool_mutexes[1 << POOL_MUTEX_BITS];

struct clone {
	struct volume *source, *destination;
	struct mutex *pool_mutex;
	void *block_pointers;		/* room for a step's */
	u64 holes;			/* blocks of the last step that are holes */
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
	if (!volume_contains(source, from, length) || !volume_contains(destination, to, length))
		return -EINVAL;
	request->stopped = ZVOL_CLONE_OVERLAP;
	if (source->zv == destination->zv && from < to + length && to < from + length)
		return -EINVAL;
	request->stopped = ZVOL_CLONE_COMPLETE;
	clone->pool_mutex = &pool_mutexes[hash_ptr(pool, POOL_MUTEX_BITS)];
	return 0;
}

/*
 * Whether a block of the range, or its discard, is not on disk yet. Any other error is left for zvol_clone_range() to find under its
 * locks, but no holes are counted then.
 */
static bool is_dirty(struct clone *clone, void *objset, u64 offset, u64 length)
{
	size_t count = length / clone->source->block_size;
	int error = zfs_dmu_read_l0_bps(objset, ZVOL_OBJECT, offset, length, clone->block_pointers, &count);

	if (error)
		memset(clone->block_pointers, 0xff, length / clone->source->block_size * BLKPTR_SIZE);
	return error == EAGAIN || volume_has_pending_free(clone->source, offset, length);
}

/* BP_IS_EMBEDDED() of include/sys/spa.h: the data is in the block pointer itself. */
static bool is_embedded(const char *block_pointer)
{
	return *(const u64 *)(block_pointer + BLKPTR_PROP) & BIT_ULL(39);
}

/* BP_IS_HOLE(). */
static bool is_hole(const char *block_pointer)
{
	const u64 *dva = (const u64 *)(block_pointer + BLKPTR_DVA);

	return !dva[0] && !dva[1] && !is_embedded(block_pointer);
}

static u64 count_holes(const char *block_pointers, u64 blocks)
{
	u64 holes = 0;

	for (; blocks; blocks--, block_pointers += BLKPTR_SIZE)
		holes += is_hole(block_pointers);
	return holes;
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
	clone->holes = count_holes(clone->block_pointers, clean / clone->source->block_size);
	if (!pool_of(clone->destination))
		return -ENXIO;
	request->stopped = ZVOL_CLONE_READ_ONLY;
	if (volume_is_read_only(clone->destination))
		return -EROFS;

	error = zfs_zvol_clone_range(clone->source->zv, from, clone->destination->zv, to, clean);
	switch (error) {
	case 0:
		request->stopped = ZVOL_CLONE_OUT_OF_RANGE;
		if (!volume_contains(clone->source, from, clean) || !volume_contains(clone->destination, to, clean))
			return -EINVAL;
		request->stopped = ZVOL_CLONE_COMPLETE;
		return 0;
	case EAGAIN:
		request->stopped = ZVOL_CLONE_DIRTY;
		return -EAGAIN;
	case EXDEV:
		/* The pools were compared before. */
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
 * One step that keeps the page caches of the block devices coherent, as a direct write does it: dirty pages of both are written
 * first, those of the destination dropped. The invalidate lock of the destination keeps buffered reads from bringing the old data
 * back meanwhile; a buffered write that runs at the same time is ordered by nobody, and the second invalidation drops what it left
 * clean.
 *
 * Both invalidate locks also keep BLKDISCARD out (blk_ioctl_discard() and blkdev_fallocate() take them): a discard of the
 * source between our question and the clone is what openzfs#18853 is about. A file system on the source, or a target inside of the
 * kernel, discards without them. The pool's mutex comes first, so that two clones in opposite directions can't each hold one lock.
 */
static int step(struct clone *clone, struct zvol_clone_range *request, u64 from, u64 to, u64 *length)
{
	struct address_space *source = clone->source->file->f_mapping;
	struct address_space *destination = clone->destination->file->f_mapping;
	unsigned int noio;
	int error;

	request->stopped = ZVOL_CLONE_SIGNAL;
	error = mutex_lock_interruptible(clone->pool_mutex);
	if (error)
		return error;
	request->stopped = ZVOL_CLONE_PAGE_CACHE;
	error = filemap_write_and_wait_range(source, from, from + *length - 1);
	if (error)
		goto unlock_mutex;
	filemap_invalidate_lock(destination);
	if (source != destination)
		filemap_invalidate_lock_shared(source);
	error = filemap_write_and_wait_range(destination, to, to + *length - 1);
	if (!error)
		error = invalidate(destination, to, *length);
	if (error)
		goto unlock;
	noio = memalloc_noio_save();
	error = clone_clean(clone, request, from, to, length);
	memalloc_noio_restore(noio);
	invalidate(destination, to, *length);
unlock:
	if (source != destination)
		filemap_invalidate_unlock_shared(source);
	filemap_invalidate_unlock(destination);
unlock_mutex:
	mutex_unlock(clone->pool_mutex);
	return error;
}

int clone_range(struct volume *source, struct volume *destination, struct zvol_clone_range *request)
{
	struct clone clone = { .source = source, .destination = destination };
	const u64 longest = max_t(u64, ZVOL_CLONE_STEP, source->block_size);
	int error = check(&clone, request);

	if (error || !request->length)
		return error;
	clone.block_pointers = kvmalloc_array(min(longest, request->length) / source->block_size, BLKPTR_SIZE,
					      GFP_KERNEL_ACCOUNT);
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
		request->hole_bytes += clone.holes * source->block_size;
		cond_resched();
	}
	kvfree(clone.block_pointers);
	return error;
}

/*
 * Whether the pointer may be that of a clone that is not on disk yet, which dmu_read_l0_bps() gives as if it were. Each of those
 * has a separate physical birth (dmu_brt_clone(): the source was born in an earlier txg) or is embedded.
 */
static bool may_be_new_clone(const char *block_pointer)
{
	return is_embedded(block_pointer) || *(const u64 *)(block_pointer + BLKPTR_PHYSICAL_BIRTH);
}

/*
 * Kind of a block whose pointer was read, and that was not written later. dnode_block_freed() covers all txgs that are not on disk, and a
 * clone cancels only the frees of the same txg (dbuf_dirty()): a discard may be older than the clone over it. A block that was cloned
 * long ago and is discarded now gives the same result. Both are called unsynced: live data is never called a hole.
 */
static enum zvol_clone_kind kind_of_clean(struct volume *volume, u64 offset, const char *block_pointer)
{
	if (is_hole(block_pointer))
		return ZVOL_CLONE_HOLE;
	if (!volume_has_pending_free(volume, offset, volume->block_size))
		return ZVOL_CLONE_DATA;
	return may_be_new_clone(block_pointer) ? ZVOL_CLONE_UNSYNCED : ZVOL_CLONE_HOLE;
}

static enum zvol_clone_kind kind_of(struct volume *volume, void *objset, u64 offset, void *block_pointer, int *error)
{
	size_t count = 1;

	*error = zfs_dmu_read_l0_bps(objset, ZVOL_OBJECT, offset, volume->block_size, block_pointer, &count);
	if (*error == EAGAIN) {
		*error = 0;
		return ZVOL_CLONE_UNSYNCED;
	}
	return *error ? ZVOL_CLONE_HOLE : kind_of_clean(volume, offset, block_pointer);
}

/* False: no room. */
static bool add_extent(struct zvol_clone_map *request, struct zvol_clone_extent *extents, enum zvol_clone_kind kind, u64 length)
{
	if (!request->count || extents[request->count - 1].kind != kind) {
		if (request->count == request->most)
			return false;
		extents[request->count++] = (struct zvol_clone_extent) { .kind = kind };
	}
	extents[request->count - 1].length += length;
	request->bytes_done += length;
	return true;
}

/*
 * One step of a map: the suspend lock is released after it. *room is set to false if the next extent does not fit. All block
 * pointers are read at once, and singly only when that fails: a block is not on disk yet, or can't be read.
 */
static int map_step(struct volume *volume, struct zvol_clone_map *request, struct zvol_clone_extent *extents, char *block_pointers,
		    u64 length, bool *room)
{
	const u64 offset = request->offset + request->bytes_done;
	void *objset = volume_hold_objset(volume);
	size_t count = length / volume->block_size;
	u64 done, hole, number = 0;
	bool clean;
	int error = 0;

	request->stopped = ZVOL_CLONE_REMOVED;
	if (!objset)
		return -ENXIO;
	request->stopped = ZVOL_CLONE_COMPLETE;
	hole = volume_clean_hole(volume, offset, request->length - request->bytes_done);
	if (hole) {
		*room = add_extent(request, extents, ZVOL_CLONE_HOLE, hole);
		goto release;
	}
	clean = !zfs_dmu_read_l0_bps(objset, ZVOL_OBJECT, offset, length, block_pointers, &count);
	for (done = 0; done < length && *room; done += volume->block_size, number++) {
		enum zvol_clone_kind kind = clean ?
			kind_of_clean(volume, offset + done, block_pointers + number * BLKPTR_SIZE) :
			kind_of(volume, objset, offset + done, block_pointers, &error);

		if (error) {
			request->stopped = ZVOL_CLONE_ZFS;
			error = error > 0 && error <= MAX_ERRNO && error != EBADE ? -error : -EIO;
			break;
		}
		*room = add_extent(request, extents, kind, volume->block_size);
	}
release:
	volume_release_objset(volume);
	return error;
}

int map_range(struct volume *volume, struct zvol_clone_map *request, struct zvol_clone_extent *extents)
{
	const u64 step = min_t(u64, request->length, max_t(u64, ZVOL_CLONE_STEP, volume->block_size));
	u64 steps = DIV_ROUND_UP_ULL((u64)ZVOL_CLONE_MAP_BLOCKS * volume->block_size, max_t(u64, step, 1));
	char *block_pointers;
	unsigned int noio;
	bool room = true;
	int error = 0;

	request->stopped = ZVOL_CLONE_UNALIGNED;
	if (!IS_ALIGNED(request->offset | request->length, volume->block_size))
		return -EINVAL;
	request->stopped = ZVOL_CLONE_OUT_OF_RANGE;
	if (!request->length || !volume_contains(volume, request->offset, request->length))
		return -EINVAL;
	request->stopped = ZVOL_CLONE_NO_MEMORY;
	block_pointers = kvmalloc_array(step / volume->block_size, BLKPTR_SIZE, GFP_KERNEL_ACCOUNT);
	if (!block_pointers)
		return -ENOMEM;
	for (; !error && room && steps && request->bytes_done < request->length && !signal_pending(current); steps--) {
		noio = memalloc_noio_save();
		error = map_step(volume, request, extents, block_pointers, min(step, request->length - request->bytes_done), &room);
		memalloc_noio_restore(noio);
		cond_resched();
	}
	kvfree(block_pointers);
	if (!error && !request->bytes_done) {
		request->stopped = ZVOL_CLONE_SIGNAL;
		return -EINTR;
	}
	return request->bytes_done ? 0 : error;
}
