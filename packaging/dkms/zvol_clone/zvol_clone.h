/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * /dev/zvol_clone: clone a range of blocks between two open zvols of one OpenZFS pool; report which blocks of a zvol use space; count
 * how much of a zvol or of a file on OpenZFS is shared.
 *
 * The interface to user space. Programs of any licence may include this file.
 */
#ifndef ZVOL_CLONE_H
#define ZVOL_CLONE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define ZVOL_CLONE_DEVICE "/dev/zvol_clone"
#define ZVOL_CLONE_VERSION 2

/* No range lock of a zvol is held for longer than one step. A volblocksize above it makes a step of one block. */
#define ZVOL_CLONE_STEP (4U << 20)

/* Blocks that one ZVOL_CLONE_MAP reads, at most; it may skip more holes. */
#define ZVOL_CLONE_MAP_BLOCKS 16384U

/* Why the call stopped. The errno is the same for each, except where "any" says it is that of the part that failed. */
enum zvol_clone_stopped {
	ZVOL_CLONE_COMPLETE = 0,		/* 0: all of the range was cloned */
	ZVOL_CLONE_OTHER_VERSION = 1,		/* ENOTTY: `version` now holds the module's */
	ZVOL_CLONE_BAD_REQUEST = 2,		/* EINVAL: flags or reserved not zero */
						/* 3: of version 1 */
	ZVOL_CLONE_BAD_DESCRIPTOR = 4,		/* EBADF: not open, source not for reading, destination not for writing */
	ZVOL_CLONE_NOT_BLOCK_DEVICE = 5,	/* ENOTBLK */
	ZVOL_CLONE_NOT_ZVOL = 6,		/* ENODEV: a block device of another driver */
	ZVOL_CLONE_PARTITION = 7,		/* ENODEV: a partition of a zvol */
	ZVOL_CLONE_REMOVED = 8,			/* ENXIO: the zvol is being removed, or lost its dataset */
	ZVOL_CLONE_UNKNOWN_LAYOUT = 9,		/* EIO: the zvol's state is not as this module was built to expect */
	ZVOL_CLONE_READ_ONLY = 10,		/* EROFS: the destination */
	ZVOL_CLONE_OTHER_POOL = 11,		/* EXDEV */
	ZVOL_CLONE_OTHER_KEY = 12,		/* EXDEV: encrypted with different master keys, or only one of them encrypted */
	ZVOL_CLONE_OTHER_BLOCK_SIZE = 13,	/* EINVAL: the volblocksizes differ */
	ZVOL_CLONE_UNALIGNED = 14,		/* EINVAL: an offset or the length is not a multiple of volblocksize */
	ZVOL_CLONE_OUT_OF_RANGE = 15,		/* EINVAL: beyond the end of a zvol (also when it shrank meanwhile) */
	ZVOL_CLONE_OVERLAP = 16,		/* EINVAL: the ranges overlap inside one zvol */
	ZVOL_CLONE_DIRTY = 17,			/* EAGAIN: the block after bytes_done, or its discard, is not on disk yet; see dirty_length */
	ZVOL_CLONE_SIGNAL = 18,			/* EINTR */
	ZVOL_CLONE_PAGE_CACHE = 19,		/* any: writing back or invalidating cached pages failed */
	ZVOL_CLONE_NO_MEMORY = 20,		/* ENOMEM: nothing was done */
	ZVOL_CLONE_ZFS = 21,			/* any: zvol_clone_range() failed: ENOSPC, EDQUOT, EIO, EOPNOTSUPP ... */
	ZVOL_CLONE_NOT_ZFS = 22,		/* ENODEV: a regular file of another file system */
};

/*
 * The argument of ZVOL_CLONE_RANGE. Offsets and lengths are bytes, multiples of the volblocksize of both zvols.
 *
 * The ioctl returns 0 when the whole range was cloned, else -1 with errno. The fields marked out are set in both cases
 * (not after EFAULT). Length 0 checks the descriptors and clones nothing.
 *
 * bytes_done counts from the start of the range: that much is cloned, in order. What follows it, up to one step, may or may
 * not have been cloned already when zvol_clone_range() itself stopped (ZVOL_CLONE_ZFS, ZVOL_CLONE_DIRTY); it holds the
 * old or the new data, block by block. Repeat it or write it.
 *
 * A clone is in the page cache of nobody and in the ZIL's memory: it is durable after fsync(2) of the destination.
 */
struct zvol_clone_range {
	__u32 version;			/* in: ZVOL_CLONE_VERSION; out: the module's, when it differs */
	__u32 flags;			/* in: 0 */
	__s32 source_fd;		/* in: a zvol, open for reading */
	__s32 destination_fd;		/* in: a zvol, open for writing; may be the source */
	__u64 source_offset;		/* in */
	__u64 destination_offset;	/* in */
	__u64 length;			/* in */
	__u64 bytes_done;		/* out */
	__u64 dirty_length;		/* out: after ZVOL_CLONE_DIRTY, dirty bytes that follow bytes_done (0: not known) */
	__u32 stopped;			/* out: enum zvol_clone_stopped */
	__u32 reserved;			/* in: 0 */
	__u64 hole_bytes;		/* out: of bytes_done, those that are holes now: nobody shares them */
};

enum zvol_clone_kind {
	ZVOL_CLONE_HOLE = 0,		/* takes no space, or none any more once its discard is on disk; reads as zeroes */
	ZVOL_CLONE_DATA = 1,		/* takes space */
	ZVOL_CLONE_UNSYNCED = 2,	/*
					 * was written and is not on disk yet: takes space then, unless compression makes a hole of zeroes.
					 * Or it was cloned (or is a block of a few bytes) and discarded, and which came last is not on disk yet
					 */
};

struct zvol_clone_extent {
	__u64 length;			/* bytes */
	__u32 kind;			/* enum zvol_clone_kind */
	__u32 reserved;			/* 0 */
};

/*
 * The argument of ZVOL_CLONE_MAP: what the blocks of a range of one zvol are, now. Offset and length are multiples of its
 * volblocksize, length not 0.
 *
 * The ioctl returns 0 when it has reported a beginning of the range, one block at least, else -1 with errno and `stopped` as for
 * ZVOL_CLONE_RANGE. Neighbouring extents differ. It ends early when `most` extents are full, after ZVOL_CLONE_MAP_BLOCKS
 * blocks, and for a signal.
 */
struct zvol_clone_map {
	__u32 version;			/* in: ZVOL_CLONE_VERSION; out: the module's, when it differs */
	__u32 flags;			/* in: 0 */
	__s32 fd;			/* in: a zvol, open for reading */
	__u32 most;			/* in: room in extents, 1 at least */
	__u64 offset;			/* in */
	__u64 length;			/* in */
	__u64 extents;			/* in: address of struct zvol_clone_extent[most] */
	__u64 bytes_done;		/* out: the sum of the lengths */
	__u32 count;			/* out: extents filled */
	__u32 stopped;			/* out: enum zvol_clone_stopped */
};

/* One ZVOL_CLONE_SPACE ends after so many nanoseconds. */
#define ZVOL_CLONE_SPACE_BUDGET 1000000000ULL

/*
 * The argument of ZVOL_CLONE_SPACE: what the blocks of a range take, as the last synced transaction group has them. A block that
 * lies in the range by a part counts whole. What lies beyond the end takes nothing.
 *
 * The ioctl returns 0 when a beginning of the range is counted, else -1 with errno and `stopped` as for ZVOL_CLONE_RANGE: then the figures
 * mean nothing. It ends early after its budget and for a signal: call it again from offset + bytes_done on, and add up. All figures are bytes as st_blocks
 * counts them: compressed, with all copies. unique = allocated - shared.
 *
 * Changes of transaction groups that are not synced yet are not in the figures, and may be in them by a part: `dirty` is set then.
 */
struct zvol_clone_space {
	__u32 version;			/* in: ZVOL_CLONE_VERSION; out: the module's, when it differs */
	__u32 flags;			/* in: 0 */
	__s32 fd;			/* in: a zvol, or a regular file on OpenZFS, open for reading */
	__u32 stopped;			/* out: enum zvol_clone_stopped */
	__u64 offset;			/* in */
	__u64 length;			/* in: not 0 */
	__u64 budget;			/* in: nanoseconds; 0, or more than ZVOL_CLONE_SPACE_BUDGET: that */
	__u64 bytes_done;		/* out: so much of the range is counted, from its start */
	__u64 allocated;		/* out: what its blocks take */
	__u64 shared;			/* out: of these, blocks that other ranges share by block cloning */
	__u64 snapshot;			/* out: of the allocated, blocks that a snapshot (or a clone's origin) also holds */
	__u64 deduplicated;		/* out: of the allocated, deduplicated blocks: never counted as shared, and who else has them is not known */
	__u64 txg;			/* out: the last synced transaction group */
	__u32 dirty;			/* out: 1: the file or zvol has changes that are not synced */
	__u32 reserved;			/* in: 0 */
};

#define ZVOL_CLONE_RANGE _IOWR('z', 0xc1, struct zvol_clone_range)
#define ZVOL_CLONE_MAP _IOWR('z', 0xc2, struct zvol_clone_map)
#define ZVOL_CLONE_SPACE _IOWR('z', 0xc3, struct zvol_clone_space)

#endif
