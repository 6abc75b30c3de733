/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Clones of whole files: by sharing blocks if the file systems can, otherwise by copying. Holes stay holes.
 *
 * A call makes one clone in the caller's thread. It may take long: a server runs it in a job's thread. The caller holds no lock of a dataset. Nothing
 * here knows of ganesha or of RPC. Thread-safe. Every function returns 0 or an errno value. */
#pragma once

#include "dataset.h"

enum fileops_clone_mode {
    FILEOPS_CLONE_FULL, /* shared where possible, the rest copied */
    FILEOPS_CLONE_FAST, /* all by sharing blocks, or refused with EOPNOTSUPP or EXDEV */
};

/* Why bytes were copied and not shared. */
enum fileops_fallback {
    FILEOPS_FALLBACK_OTHER_FILE_SYSTEM, /* another pool or file system, other encryption keys; later than OpenZFS 2.4 also other properties (EXDEV) */
    FILEOPS_FALLBACK_NOT_SUPPORTED, /* the file system has no block cloning, or its feature is off (EOPNOTSUPP) */
    FILEOPS_FALLBACK_MISALIGNED,    /* no multiple of the source's record size */
    FILEOPS_FALLBACK_RECORD_SIZE,   /* the destination has blocks of another size (EINVAL) */
    FILEOPS_FALLBACK_SOURCE_DIRTY,  /* recent writes are not in the pool, and the clone did not wait (EAGAIN) */
    FILEOPS_FALLBACK_THICK,         /* one of the datasets is thick, and shares nothing */
    FILEOPS_FALLBACK_UNPROVEN,      /* copy_file_range(2) may have copied: never reported as a clone */
    FILEOPS_FALLBACK_COUNT
};

/* Name of a reason in counters, for instance "other_file_system". */
const char *fileops_fallback_name(enum fileops_fallback reason);

/* State of the destination after a failed clone. */
enum fileops_clone_left {
    FILEOPS_CLONE_UNTOUCHED, /* a file: unchanged; by name: nothing was made */
    FILEOPS_CLONE_EMPTY,     /* a file: emptied */
    FILEOPS_CLONE_UNKNOWN,   /* a file: it could not be emptied. By name: it is complete, but may be missing after a crash */
};

/* Bytes of a clone by method. cloned + copied + holes = done. */
struct fileops_clone_result {
    uint64_t done;                             /* bytes that the destination has */
    uint64_t cloned;                           /* proven to be shared, including holes inside a shared range */
    uint64_t copied;                           /* read and written, or not known to be shared */
    uint64_t holes;                            /* of a copy: left as holes */
    uint64_t fallback[FILEOPS_FALLBACK_COUNT]; /* bytes copied, by reason; the sum is `copied` */
    enum fileops_clone_left left;              /* where it failed */
    enum fileops_fallback refused;             /* why a fast clone was refused (EOPNOTSUPP, EXDEV) */
};

/* Called from the thread of the clone at least once a second while bytes move. Returns false to cancel: the clone then ends with
 * ECANCELED, and is removed. */
typedef bool (*fileops_progress)(void *context, uint64_t done, uint64_t total);

struct fileops_clone_request {
    enum fileops_clone_mode mode;
    int source; /* open for reading; a regular file */

    /* `destination` >= 0: an open file (reading and writing) without data, which becomes equal to the source in data and size. Others can change
     * it meanwhile, and after a crash it may hold a part.
     * Otherwise the name `name` in the open directory `directory`, which must not exist. At any moment and after a crash the file is complete and
     * stable, or does not exist. */
    int destination;
    int directory;
    const char *name;
    uid_t owner; /* of the file by name */
    gid_t group;
    mode_t mode_bits;

    struct fileops_dataset *source_dataset,
        *destination_dataset; /* equal if both files are on one dataset; the caller has references */

    fileops_progress progress; /* may be NULL */
    void *progress_context;
};

/* Clones. Returns after the destination is stable (as after fsync(2)), or removed. The clone is the source's state during the whole call: if the
 * source changes meanwhile, the result is EBUSY. (Changes through a mapping of a local process are not detected.)
 *
 * Errors: EBUSY the source changes, or files are truncated all the time; ECANCELED by progress; EEXIST the name exists, or the file holds data;
 * ENOSPC also for a quota; EAGAIN a thick dataset is still counting its files, or became thick meanwhile; EOPNOTSUPP, EXDEV fast and not possible; EINVAL source and destination are one file; EISDIR not a regular file;
 * otherwise the kernel's error (EIO, EROFS, ESTALE, ...). `result` is filled in both cases. */
int fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result);
