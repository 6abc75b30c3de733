/* Destinations of clones by file descriptor while they are neither what they were nor what they will be. Such a file is emptied when a
 * crash or an error comes in between; until then nobody else may change it, and it is no source of a clone: blocks of it are freed, and
 * OpenZFS up to 2.3.9 would clone them (openzfs#18853). */
#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define MOST_AT_ONCE 16 /* files emptied by one look */

/* In the ledger first: a file that is marked there and not in memory would lose what clients write when the books are opened again, and
 * one that is marked in memory only would be emptied though nothing was done to it. With `order` held, as all who write rows. */
static int set_unfinished(struct fileops_space *space, uint64_t inode, bool unfinished)
{
    struct fileops_ledger_file row;
    pthread_mutex_lock(&space->state);
    struct known_file *file = space_find(space, inode);
    const bool found = file != NULL, needed = found && (unfinished || file->row.thick || fileops_share_map_has(space->map, inode));
    if (found)
        row = file->row;
    pthread_mutex_unlock(&space->state);
    if (!found)
        return 0;
    row.unfinished = unfinished;
    fileops_ledger_begin(space->ledger);
    if (needed)
        fileops_ledger_put_file(space->ledger, &row);
    else
        fileops_ledger_remove_file(space->ledger, inode);
    const int error = fileops_ledger_commit(space->ledger);
    if (error)
        return error;
    pthread_mutex_lock(&space->state);
    file = space_find(space, inode);
    if (file && space_is_same_file(&file->row, &row)) {
        file->row.unfinished = unfinished;
        file->resized = file->resized || !unfinished; /* the promise follows */
    }
    pthread_mutex_unlock(&space->state);
    return 0;
}

/* By one at a time. */
static int begin_filling(struct fileops_space *space, const struct fileops_ledger_file *row)
{
    pthread_mutex_lock(&space->state);
    struct known_file *file = space_find_or_make(space, row);
    const int error = !file ? ENOMEM : file->filling ? EBUSY : 0;
    if (!error)
        file->filling = true;
    pthread_mutex_unlock(&space->state);
    return error;
}

static void end_filling(struct fileops_space *space, uint64_t inode)
{
    pthread_mutex_lock(&space->state);
    struct known_file *file = space_find(space, inode);
    if (file) {
        file->filling = false;
        space_forget_if_nothing(space, file);
    }
    pthread_mutex_unlock(&space->state);
}

int space_unfinished_begin(struct fileops_space *space, int file)
{
    struct fileops_ledger_file row;
    struct stat status;
    int error = space_identify(space, file, &row, &status);
    if (!error)
        error = begin_filling(space, &row);
    if (error)
        return error;
    pthread_mutex_lock(&space->order);
    error = set_unfinished(space, row.inode, true);
    space_order_end(space);
    if (error)
        end_filling(space, row.inode);
    return error;
}

int space_unfinished_end(struct fileops_space *space, uint64_t inode, bool right)
{
    int error = 0;
    if (right) {
        pthread_mutex_lock(&space->order);
        error = set_unfinished(space, inode, false);
        space_order_end(space);
    }
    end_filling(space, inode);
    if (!right || error)
        space_wake(space);
    return error;
}

bool space_is_unfinished(struct fileops_space *space, uint64_t inode)
{
    if (!space || !atomic_load_explicit(&space->filter[space_bucket(inode)], memory_order_acquire))
        return false;
    pthread_mutex_lock(&space->state);
    const struct known_file *file = space_find(space, inode);
    const bool result = file && file->row.unfinished;
    pthread_mutex_unlock(&space->state);
    return result;
}

int space_empty(struct fileops_space *space, int file, uint64_t inode)
{
    struct fileops_change change;
    int error = space_change_begin(space, inode, FILEOPS_TRUNCATE, 0, 0, true, &change);
    if (error)
        return error;
    error = ftruncate(file, 0) ? errno : 0;
    fileops_change_end(space, &change, error);
    return error;
}

struct left {
    struct fileops_ledger_file rows[MOST_AT_ONCE];
    size_t count;
};

static void find_left(void *context, struct known_file *file)
{
    struct left *left = context;
    if (file->row.unfinished && !file->filling && !file->clones && !file->removed && left->count < MOST_AT_ONCE)
        left->rows[left->count++] = file->row;
}

void space_empty_unfinished(struct fileops_space *space)
{
    struct left left = {.count = 0};
    pthread_mutex_lock(&space->state);
    space_each(space, find_left, &left);
    pthread_mutex_unlock(&space->state);
    for (size_t i = 0; i < left.count; i++) {
        const struct fileops_ledger_file *row = &left.rows[i];
        if (begin_filling(space, row))
            continue;
        const int file = space_open_row(space, row, O_RDWR);
        bool empty = file >= 0 && !space_empty(space, file, row->inode) && !fsync(file);
        if (file < 0 && errno == ESTALE) {
            empty = true;
            fileops_file_removed(space, row->inode, false);
        }
        /* What fails is tried at the next look. */
        pthread_mutex_lock(&space->order);
        if (empty)
            set_unfinished(space, row->inode, false);
        space_order_end(space);
        end_filling(space, row->inode);
        if (file >= 0)
            close(file);
    }
}
