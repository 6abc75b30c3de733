/* A pool that has promised far more than it has refuses even that less is held. Files that share blocks and are removed make it so: the pool
 * has less by what they saved, and what is held for their dataset is not lowered yet. Blocks shared for a moment in the dataset's own
 * unused hold make the pool larger by what that saves, until the hold is lowered. */
#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#define NAME FILEOPS_CLONES "/lift" /* removed by the next opening, should a crash leave it */
#define PIECE (UINT64_C(1) << 20)
#define FIRST (16 * PIECE)
#define MOST_AT_ONCE (UINT64_C(1) << 30)

/* What no compression makes smaller. */
static int write_first(int file)
{
    char *data = malloc(PIECE);
    int error = data ? 0 : ENOMEM;
    for (uint64_t at = 0; at < FIRST && !error; at += PIECE) {
        for (uint64_t filled = 0; filled < PIECE; filled += 256)
            if (getrandom(data + filled, 256, 0) != 256)
                error = EIO;
        const ssize_t written = error ? 0 : pwrite(file, data, PIECE, (off_t)at);
        if (!error && written != (ssize_t)PIECE)
            error = written < 0 ? errno : EIO;
    }
    free(data);
    return error;
}

uint64_t space_lift_step(uint64_t size, uint64_t whole)
{
    uint64_t step = size < MOST_AT_ONCE ? size : MOST_AT_ONCE;
    const uint64_t left = whole - size;
    return step < left ? step : left;
}

/* Each step shares what is there once more, until `bytes` are saved: FIRST or a multiple of it. */
static int share_up_to(struct fileops_space *space, int file, uint64_t bytes)
{
    const uint64_t whole = bytes + FIRST;
    uint64_t size = FIRST;
    int error = 0;
    while (size < whole && !error) {
        const uint64_t step = space_lift_step(size, whole);
        const struct file_clone_range range = {.src_fd = file, .src_length = step, .dest_offset = size};
        if (size <= MOST_AT_ONCE) /* what is shared must be in the pool */
            error = space_settle(space);
        if (!error && ioctl(file, FICLONERANGE, &range))
            error = errno;
        size += step;
    }
    return error ? error : space_settle(space);
}

int space_hold_lifted(struct fileops_space *space, uint64_t bytes)
{
    const uint64_t overcommitted = space->figures.overcommitted, most = space->held - bytes;
    const uint64_t pieces = space->figures.unused / FIRST;
    const uint64_t room = pieces > 0 ? (pieces - 1) * FIRST : 0; /* beyond that, and what is written, the pool would refuse this too */
    uint64_t lift = overcommitted < most - most / 8 ? overcommitted + most / 8 : most;
    lift = (lift + FIRST - 1) / FIRST * FIRST; /* whole blocks are shared, of up to 16 MiB */
    if (lift > room)
        lift = room;
    if (lift == 0)
        return ENOSPC;
    const int file = openat(space->folder, NAME, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return errno;
    int error = write_first(file);
    if (!error)
        error = share_up_to(space, file, lift);
    if (!error)
        error = space->holder.hold(space->holder.context, bytes);
    if (unlinkat(space->folder, NAME, 0) && !error)
        error = errno;
    close(file);
    return error;
}
