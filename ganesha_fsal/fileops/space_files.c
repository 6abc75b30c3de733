/* Files the books know of, and who they are. */
#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t space_round_up(uint64_t value, uint64_t unit)
{
    return !unit || value > UINT64_MAX - unit ? value : (value + unit - 1) / unit * unit;
}

int64_t space_milliseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

size_t space_bucket(uint64_t inode)
{
    return (size_t)((inode * UINT64_C(0x9E3779B97F4A7C15)) >> 48) & (FILTER_SIZE - 1);
}

struct known_file *space_find(struct fileops_space *space, uint64_t inode)
{
    struct known_file *file = space->known[space_bucket(inode)];
    while (file && file->row.inode != inode)
        file = file->next;
    return file;
}

bool space_is_same_file(const struct fileops_ledger_file *one, const struct fileops_ledger_file *other)
{
    return one->inode == other->inode && one->handle_size == other->handle_size &&
           !memcmp(one->handle, other->handle, one->handle_size);
}

struct known_file *space_find_or_make(struct fileops_space *space, const struct fileops_ledger_file *row)
{
    const size_t bucket = space_bucket(row->inode);
    struct known_file *file = space_find(space, row->inode);
    if (file && space_is_same_file(row, &file->row))
        return file;
    if (file) { /* another generation of the inode: the file that had it is gone, and so will be what it shared */
        space_set_thick(space, file, false);
        file->row = *row;
        file->row.thick = false;
        file->removed = file->open = file->resized = file->missing = false;
        space_overwritten(space, file, 0, UINT64_MAX, fileops_share_map_sequence(space->map));
        return file;
    }
    file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    file->row = *row;
    file->next = space->known[bucket];
    space->known[bucket] = file;
    atomic_fetch_add(&space->filter[bucket], 1);
    return file;
}

int space_set_thick(struct fileops_space *space, struct known_file *file, bool thick)
{
    if (file->row.thick == thick)
        return 0;
    /* To take that back may fail too: then it counts as promised. */
    const int error = fileops_share_map_promise(space->map, file->row.inode, thick);
    if (error && thick)
        return error;
    file->row.thick = thick;
    space->thick_count += thick ? 1 : (size_t)-1;
    space_count(space, file);
    return 0;
}

void space_forget(struct fileops_space *space, struct known_file *file)
{
    const size_t bucket = space_bucket(file->row.inode);
    space_set_thick(space, file, false);
    struct known_file **place = &space->known[bucket];
    while (*place != file)
        place = &(*place)->next;
    *place = file->next;
    atomic_fetch_sub(&space->filter[bucket], 1);
    free(file->overwritten);
    free(file);
}

void space_forget_if_nothing(struct fileops_space *space, struct known_file *file)
{
    if (!file->row.thick && !file->row.unfinished && !file->filling && !file->clones && !file->changes && !file->removed && !file->overwritten_count &&
        !fileops_share_map_has(space->map, file->row.inode))
        space_forget(space, file);
}

bool space_wait_calm(struct fileops_space *space, bool (*busy)(struct fileops_space *space, uint64_t inode), uint64_t inode, int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    while (busy(space, inode))
        if (pthread_cond_clockwait(&space->calm, &space->state, CLOCK_MONOTONIC, &until) == ETIMEDOUT)
            return !busy(space, inode);
    return true;
}

static int by_offset(const void *one, const void *other)
{
    const struct fileops_overwritten *a = one, *b = other;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Puts ranges that touch and are of one sequence number together. */
static void join(struct known_file *file)
{
    size_t kept = 0;
    qsort(file->overwritten, file->overwritten_count, sizeof *file->overwritten, by_offset);
    for (size_t i = 0; i < file->overwritten_count; i++) {
        struct fileops_overwritten *last = kept ? &file->overwritten[kept - 1] : NULL;
        const struct fileops_overwritten next = file->overwritten[i];
        if (last && last->sequence == next.sequence && next.offset <= last->offset + last->length) {
            const uint64_t end = next.offset + next.length;
            if (end > last->offset + last->length)
                last->length = end - last->offset;
        } else {
            file->overwritten[kept++] = next;
        }
    }
    file->overwritten_count = kept;
}

void space_overwritten(struct fileops_space *space, struct known_file *file, uint64_t offset, uint64_t length, uint64_t sequence)
{
    struct fileops_overwritten *last = file->overwritten_count ? &file->overwritten[file->overwritten_count - 1] : NULL;
    if (!length || !sequence || !fileops_share_map_has(space->map, file->row.inode))
        return;
    if (length > UINT64_MAX - offset)
        length = UINT64_MAX - offset;
    space->unshared_bytes += length > UINT64_MAX / 2 ? 0 : length;
    if (last && last->sequence == sequence && offset >= last->offset && offset <= last->offset + last->length) {
        if (offset + length > last->offset + last->length)
            last->length = offset + length - last->offset;
        return;
    }
    if (file->overwritten_count == file->overwritten_room) {
        const size_t room = file->overwritten_room ? file->overwritten_room * 2 : 16;
        if (room > MOST_OVERWRITTEN) {
            join(file);
            if (file->overwritten_count > MOST_OVERWRITTEN / 2)
                return; /* stays counted */
        } else {
            struct fileops_overwritten *larger = realloc(file->overwritten, room * sizeof *larger);
            if (!larger)
                return;
            file->overwritten = larger;
            file->overwritten_room = room;
        }
    }
    file->overwritten[file->overwritten_count++] = (struct fileops_overwritten){offset, length, sequence};
}

/* struct file_handle of name_to_handle_at(2), with room. */
union handle {
    struct file_handle head;
    char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
};

int space_identify(struct fileops_space *space, int file, struct fileops_ledger_file *row, struct stat *status)
{
    union handle handle = {.head = {.handle_bytes = MAX_HANDLE_SZ}};
    struct stat root;
    int mount;
    if (fstat(file, status) || fstat(space->root, &root))
        return errno;
    if (!S_ISREG(status->st_mode))
        return EISDIR;
    if (status->st_dev != root.st_dev)
        return ESTALE;
    if (name_to_handle_at(file, "", &handle.head, &mount, AT_EMPTY_PATH))
        return errno;
    *row = (struct fileops_ledger_file){.inode = status->st_ino, .block_size = (uint32_t)status->st_blksize};
    memcpy(row->handle, &handle.head.handle_type, sizeof handle.head.handle_type);
    memcpy(row->handle + sizeof handle.head.handle_type, handle.head.f_handle, handle.head.handle_bytes);
    row->handle_size = sizeof handle.head.handle_type + handle.head.handle_bytes;
    return 0;
}

int space_open_row(struct fileops_space *space, const struct fileops_ledger_file *row, int flags)
{
    union handle handle = {.head = {.handle_bytes = 0}};
    struct stat status;
    if (row->handle_size <= sizeof handle.head.handle_type) {
        errno = ESTALE;
        return -1;
    }
    memcpy(&handle.head.handle_type, row->handle, sizeof handle.head.handle_type);
    handle.head.handle_bytes = (unsigned)(row->handle_size - sizeof handle.head.handle_type);
    memcpy(handle.head.f_handle, row->handle + sizeof handle.head.handle_type, handle.head.handle_bytes);
    const int file = open_by_handle_at(space->root, &handle.head, flags | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        if (errno == ENOENT)
            errno = ESTALE;
        return -1;
    }
    if (fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_ino != row->inode) {
        close(file);
        errno = ESTALE;
        return -1;
    }
    return file;
}

void space_each(struct fileops_space *space, void (*visit)(void *context, struct known_file *file), void *context)
{
    for (size_t i = 0; i < FILTER_SIZE; i++)
        for (struct known_file *file = space->known[i]; file; file = file->next)
            visit(context, file);
}
