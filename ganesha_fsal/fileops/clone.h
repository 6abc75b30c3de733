/* Clones of files: by sharing blocks where the file systems can, else by copying with holes kept.
 *
 * One call does one clone from beginning to end in the caller's thread. It may take long: whoever serves clients runs it in a
 * thread of a job. Nothing here knows of ganesha or of RPC.
 *
 * Every function returns 0 or an errno value (positive), as pthread functions do. */
#ifndef FILEOPS_CLONE_H
#define FILEOPS_CLONE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fileops_space;

enum fileops_clone_mode {
    FILEOPS_CLONE_FULL, /* shared where possible, the rest copied: always gives a result of its own right */
    FILEOPS_CLONE_FAST, /* all by sharing blocks, or refused with EOPNOTSUPP or EXDEV */
};

enum {
    FILEOPS_CLONE_GUARDED = 1 << 0, /* by name: fails with EEXIST when the name exists, instead of replacing it */
    FILEOPS_CLONE_PROMISED = 1 << 2, /* fast too: promised as a full one, where the files of the dataset are thick by default */
    FILEOPS_CLONE_DRY_RUN = 1 << 1, /* changes nothing; 0 when it would be begun, else the error it would begin with */
};

/* Why bytes were copied that could have been shared had things been otherwise. */
enum fileops_fallback {
    FILEOPS_FALLBACK_OTHER_FILE_SYSTEM, /* another pool, another file system, or other encryption keys (EXDEV) */
    FILEOPS_FALLBACK_NOT_SUPPORTED,     /* no block cloning there, or its feature is off (EOPNOTSUPP) */
    FILEOPS_FALLBACK_MISALIGNED,        /* no multiple of the source's record size */
    FILEOPS_FALLBACK_RECORD_SIZE,       /* the destination has blocks of another size (EINVAL) */
    FILEOPS_FALLBACK_SOURCE_DIRTY,      /* still not in the pool after the wait (EAGAIN) */
    FILEOPS_FALLBACK_NO_RESERVATION,    /* sharing must be backed by space, and there is not so much (space.h) */
    FILEOPS_FALLBACK_UNPROVEN,          /* copy_file_range(2) did it, and may have copied: never called a clone */
    FILEOPS_FALLBACK_COUNT
};

/* The name of a reason as counters show it, as in "other_file_system". */
const char *fileops_fallback_name(enum fileops_fallback reason);

/* What a clone that failed has left of its destination. */
enum fileops_clone_left {
    FILEOPS_CLONE_UNTOUCHED,  /* a file as it was; by name: nothing was made, or replaced */
    FILEOPS_CLONE_EMPTY,      /* a whole clone into a file: it was emptied */
    FILEOPS_CLONE_OLD_OR_NEW, /* a range: each byte in it is the old or the new one */
    FILEOPS_CLONE_UNKNOWN,    /* whole into a file: neither nor; nobody can change it until it could be emptied in the background.
                               * By name: it is there and complete, but may be gone after a crash */
};

/* Why it is EBUSY. */
enum fileops_clone_busy {
    FILEOPS_CLONE_NOT_BUSY,
    FILEOPS_CLONE_SOURCE_CHANGES,
    FILEOPS_CLONE_SOURCE_FILLED,      /* another clone comes into the source, or failed and it is not empty yet */
    FILEOPS_CLONE_DESTINATION_FILLED, /* the same of the destination */
    FILEOPS_CLONE_DESTINATION_CLONED, /* blocks of the destination must not be freed now, as they are being cloned */
    FILEOPS_CLONE_DESTINATION_WRITES, /* its writers could not be kept away for a moment */
    FILEOPS_CLONE_NOT_SETTLED,        /* what was written or freed last is not in the pool yet, and that could not be waited for */
    FILEOPS_CLONE_BUSY_COUNT
};

/* The reason in words for people, as in "the source kept changing". */
const char *fileops_clone_busy_text(enum fileops_clone_busy busy);

/* How the bytes of a clone went. cloned + copied + holes = done. */
struct fileops_clone_result {
    uint64_t done;    /* bytes of the range that the destination has */
    uint64_t cloned;  /* known to be shared; holes inside a shared range are in here too */
    uint64_t copied;  /* read and written, or not known to be shared */
    uint64_t holes;   /* of a copy: left as holes */
    uint64_t fallback[FILEOPS_FALLBACK_COUNT]; /* bytes copied, by reason; the sum is `copied` */
    enum fileops_clone_left left; /* where it failed */
    enum fileops_clone_busy busy; /* where that is EBUSY */
};

/* Called now and then from the thread of the clone, at least once a second while bytes move. Returns false to cancel: the
 * clone then ends with ECANCELED and leaves nothing. A single call of the kernel (sharing up to 4 GiB) is not interrupted. */
typedef bool (*fileops_progress)(void *context, uint64_t done, uint64_t total);

struct fileops_clone_request {
    enum fileops_clone_mode mode;
    unsigned flags;

    int source; /* open for reading; a regular file */

    /* The range. `whole` takes all of the source as it is when the clone begins, and the offsets and length are not looked at. */
    bool whole;
    uint64_t source_offset;
    uint64_t destination_offset;
    uint64_t length; /* not beyond the source's end: EINVAL */

    /* Where to: an open file, or a name.
     * `destination` >= 0: open for reading and writing; a regular file. With `whole` it becomes just like the source in data and
     * size; while that is under way it is no source, and when it fails after it began it is empty, also after a crash once its space is
     * opened again. (Where emptying fails too, it is tried in the background, and nobody can change the file until then.) With a range, bytes outside of it are left alone, and after a failure the range holds old or new bytes.
     * `destination` < 0 (only with `whole`): the name `name` in the open directory `directory`. It is there, complete and
     * stable, or as it was before, at any moment and after a crash; it replaces a file of that name, in one step, unless GUARDED. */
    int destination;
    int directory;
    const char *name;
    uid_t owner; /* of the file by name */
    gid_t group;
    mode_t mode_bits; /* of the file by name; (mode_t)-1: those of the source */

    /* The books of the datasets (space.h). `destination_space` is required by name and for `whole`. NULL: the dataset has none; then
     * a source on ZFS is copied, as nobody keeps clients from freeing its blocks while they are cloned. With source and destination on one dataset both are the same. */
    struct fileops_space *source_space;
    struct fileops_space *destination_space;

    fileops_progress progress; /* may be NULL */
    void *progress_context;
};

/* Clones. A clone of a file whose space is promised (space.h) has no promise of its own before fileops_reserve(), unless the files of its
 * dataset are thick by default and it is full or PROMISED: then it has one, or fails with ENOSPC or EAGAIN. Returns once the destination is stable (as after fsync(2)), or has been cleaned up.
 *
 * What the destination gets is the source at one moment between call and return. When the source changes meanwhile, and sharing
 * it in one step is not possible, the answer is EBUSY; never a mixture. EBUSY too while another clone comes into one of the two. (Changes through a mapping of a local process are not seen.)
 *
 * Errors: EBUSY above; ECANCELED by progress; EEXIST guarded and there; ENOSPC, EDQUOT; EOPNOTSUPP, EXDEV fast and not possible;
 * EINVAL a range beyond the source, overlapping in one file, or a request that says nothing; EISDIR no regular file; EFBIG;
 * else what the kernel said (EIO, EROFS, ESTALE, ...). `result` is filled in both cases. */
int fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result);

#endif
