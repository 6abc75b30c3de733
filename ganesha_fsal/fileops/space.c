/* Opening the books, repairing them, and their thread. */
#include "space_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_BETWEEN_LOOKS 5
#define SECONDS_AFTER_A_LOOK 1

static int read_file(void *context, const struct fileops_ledger_file *row)
{
    struct fileops_space *space = context;
    struct fileops_ledger_file thin = *row;
    thin.thick = false;
    struct known_file *file = space_find_or_make(space, &thin);
    return file ? space_set_thick(space, file, row->thick) : ENOMEM;
}

static int read_reference(void *context, const struct fileops_reference *reference)
{
    struct fileops_space *space = context;
    return fileops_share_map_add(space->map, reference);
}

struct inodes {
    uint64_t *list;
    size_t count, room;
};

/* What must be done to files of the ledger, found by a walk that must not change it. */
struct repair {
    struct fileops_space *space;
    struct inodes gone, emptied;
    int error;
};

static void add(struct repair *repair, struct inodes *inodes, uint64_t inode)
{
    if (inodes->count == inodes->room) {
        const size_t room = inodes->room ? inodes->room * 2 : 64;
        uint64_t *larger = realloc(inodes->list, room * sizeof *larger);
        if (!larger) {
            repair->error = ENOMEM;
            return;
        }
        inodes->list = larger;
        inodes->room = room;
    }
    inodes->list[inodes->count++] = inode;
}

static void look_at(void *context, struct known_file *file)
{
    struct repair *repair = context;
    struct stat status;
    const int open = space_open_row(repair->space, &file->row, file->row.unfinished ? O_RDWR : O_RDONLY);
    if (open < 0 && errno != ESTALE) {
        repair->error = errno;
        return;
    }
    if (open < 0) {
        add(repair, &repair->gone, file->row.inode);
        return;
    }
    if (fstat(open, &status))
        repair->error = errno;
    else
        file->row.block_size = (uint32_t)status.st_blksize; /* a clone that ended in a crash may have changed it */
    /* What can't be emptied, or not be written down, is tried again by the thread; until then nobody may change it. */
    if (file->row.unfinished && !ftruncate(open, 0) && !fsync(open)) {
        struct fileops_ledger_file row = file->row;
        row.unfinished = false;
        fileops_ledger_put_file(repair->space->ledger, &row);
        space_overwritten(repair->space, file, 0, UINT64_MAX, UINT64_MAX);
        add(repair, &repair->emptied, row.inode);
    }
    /* It may have become smaller, and was not yet told so. */
    if (file->row.thick && !fstat(open, &status) && (uint64_t)status.st_size < file->row.promised) {
        file->row.promised = (uint64_t)status.st_size;
        fileops_ledger_put_file(repair->space->ledger, &file->row);
    }
    space_count(repair->space, file);
    close(open);
    if (!file->row.thick && !file->row.unfinished && !file->overwritten_count &&
        !fileops_share_map_has(repair->space->map, file->row.inode))
        add(repair, &repair->gone, file->row.inode);
}

/* References of a file without a row: a row always comes with the first. */
static void look_at_reference(void *context, uint64_t inode)
{
    struct repair *repair = context;
    if (!space_find(repair->space, inode))
        add(repair, &repair->gone, inode);
}

static void forget_reference(void *context, const struct fileops_reference *before, const struct fileops_reference *left, size_t count)
{
    struct fileops_space *space = context;
    (void)left;
    if (!count)
        fileops_ledger_remove_reference(space->ledger, before->id);
}

/* The file system is full: nothing can be written, not even that something is no longer. */
static bool full(int error)
{
    return error == ENOSPC || error == EDQUOT;
}

static int repair_files(struct fileops_space *space)
{
    struct repair repair = {.space = space};
    fileops_ledger_begin(space->ledger);
    space_each(space, look_at, &repair);
    fileops_share_map_files(space->map, look_at_reference, &repair);
    for (size_t i = 0; i < repair.gone.count; i++) {
        struct known_file *file = space_find(space, repair.gone.list[i]);
        fileops_share_map_remove(space->map, repair.gone.list[i], 0, UINT64_MAX, UINT64_MAX, SIZE_MAX, forget_reference, space);
        fileops_ledger_remove_file(space->ledger, repair.gone.list[i]);
        if (file)
            space_forget(space, file);
    }
    const int error = fileops_ledger_commit(space->ledger);
    for (size_t i = 0; i < repair.emptied.count && !error; i++) {
        struct known_file *file = space_find(space, repair.emptied.list[i]);
        if (file)
            file->row.unfinished = false;
    }
    free(repair.gone.list);
    free(repair.emptied.list);
    return repair.error ? repair.error : full(error) ? 0 : error; /* the ledger has more than there is then */
}

/* Clones that were under way by name. */
static int remove_leftovers(int folder)
{
    int error = 0;
    const int clones = openat(folder, FILEOPS_CLONES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = clones < 0 ? NULL : fdopendir(clones);
    if (!directory) {
        error = errno;
        if (clones >= 0)
            close(clones);
        return error;
    }
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && unlinkat(clones, entry->d_name, 0))
            error = errno;
    closedir(directory);
    return error;
}

static int open_folder(struct fileops_space *space, const char *root)
{
    space->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (space->root < 0)
        return errno;
    if (mkdirat(space->root, FILEOPS_FOLDER, 0700) && errno != EEXIST)
        return errno;
    space->folder = openat(space->root, FILEOPS_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (space->folder < 0)
        return errno;
    space->lock = openat(space->folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (space->lock < 0)
        return errno;
    if (flock(space->lock, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK ? EBUSY : errno;
    if (mkdirat(space->folder, FILEOPS_CLONES, 0700) && errno != EEXIST)
        return errno;
    const int error = remove_leftovers(space->folder);
    return full(error) ? 0 : error; /* the next time */
}

int space_mark_open(struct fileops_space *space)
{
    fileops_ledger_begin(space->ledger);
    fileops_ledger_set(space->ledger, "clean", 0);
    return fileops_ledger_commit(space->ledger);
}

static int open_ledger(struct fileops_space *space)
{
    char path[64];
    /* By the folder's descriptor: nobody can put another folder in its place. */
    snprintf(path, sizeof path, "/proc/self/fd/%d/ledger.sqlite", space->folder);
    int error = fileops_ledger_open(path, &space->ledger);
    if (!error)
        error = fileops_ledger_read(space->ledger, read_file, read_reference, space);
    if (error)
        return error;
    if (space->find_holder)
        space_remember_setting(space);
    space->exact = fileops_ledger_get(space->ledger, "clean", 1) || !fileops_share_map_bytes(space->map);
    error = repair_files(space);
    if (error)
        return error;
    error = space_mark_open(space);
    return full(error) ? 0 : error;
}

static void open_holder(struct fileops_space *space)
{
    /* What somebody else has set is not ours to take away. */
    space->held = fileops_ledger_get(space->ledger, "held", 0);
    /* What can't be held, or not be asked, is told by `problem`: clients are served nevertheless. */
    if (!space_ask_holder(space) && (space->thick_count || space->held))
        space_lower(space, true);
}

static void *look_now_and_then(void *context)
{
    struct fileops_space *space = context;
    pthread_mutex_lock(&space->thread_state);
    while (!space->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        const time_t soonest = until.tv_sec + SECONDS_AFTER_A_LOOK;
        until.tv_sec += space->wake ? SECONDS_AFTER_A_LOOK : SECONDS_BETWEEN_LOOKS; /* it was woken while it looked */
        while (!space->stop && !pthread_cond_clockwait(&space->thread_wake, &space->thread_state, CLOCK_MONOTONIC, &until))
            if (space->wake && until.tv_sec > soonest) /* who wakes it has to wait a little: others may want the same */
                until.tv_sec = soonest;
        space->wake = false;
        if (space->stop)
            break;
        pthread_mutex_unlock(&space->thread_state);
        space_maintain(space, false);
        pthread_mutex_lock(&space->thread_state);
    }
    pthread_mutex_unlock(&space->thread_state);
    return NULL;
}

static void free_space(struct fileops_space *space)
{
    fileops_ledger_close(space->ledger);
    for (size_t i = 0; space->known && i < FILTER_SIZE; i++)
        while (space->known[i])
            space_forget(space, space->known[i]);
    fileops_share_map_free(space->map);
    free(space->let_go);
    free(space->known);
    free(space->path);
    free((void *)space->filter);
    if (space->has_holder && space->holder.close)
        space->holder.close(space->holder.context);
    if (space->lock >= 0)
        close(space->lock);
    if (space->folder >= 0)
        close(space->folder);
    if (space->root >= 0)
        close(space->root);
    pthread_mutex_destroy(&space->order);
    pthread_mutex_destroy(&space->state);
    pthread_cond_destroy(&space->calm);
    pthread_mutex_destroy(&space->settling);
    pthread_mutex_destroy(&space->turning);
    pthread_cond_destroy(&space->settled);
    pthread_mutex_destroy(&space->thread_state);
    pthread_cond_destroy(&space->thread_wake);
    free(space);
}

int fileops_space_open(const char *root, const struct fileops_space_options *options, struct fileops_space **opened)
{
    struct statvfs file_system;
    struct fileops_space *space = calloc(1, sizeof *space);
    int error = 0;
    if (!space)
        return ENOMEM;
    space->root = space->folder = space->lock = -1;
    space->overdraft = UINT64_MAX;
    TAILQ_INIT(&space->touched);
    TAILQ_INIT(&space->untouched);
    space->find_holder = options ? options->find_holder : NULL;
    space->overwrites_unshare = !space->find_holder;
    space->path = strdup(root);
    pthread_mutex_init(&space->order, NULL);
    pthread_mutex_init(&space->state, NULL);
    pthread_cond_init(&space->calm, NULL);
    pthread_mutex_init(&space->settling, NULL);
    pthread_mutex_init(&space->turning, NULL);
    pthread_cond_init(&space->settled, NULL);
    pthread_mutex_init(&space->thread_state, NULL);
    pthread_cond_init(&space->thread_wake, NULL);
    space->map = fileops_share_map_new();
    space->known = calloc(FILTER_SIZE, sizeof *space->known);
    space->filter = calloc(FILTER_SIZE, sizeof *space->filter);
    if (!space->path || !space->map || !space->known || !space->filter)
        error = ENOMEM;
    if (!error)
        error = open_folder(space, root);
    if (!error && fstatvfs(space->root, &file_system))
        error = errno;
    if (!error) {
        space->block_size = file_system.f_bsize ? file_system.f_bsize : 4096;
        error = open_ledger(space);
    }
    if (!error) {
        pthread_mutex_lock(&space->order);
        open_holder(space);
        space_order_end(space);
    }
    if (!error && !(options && options->no_thread)) {
        error = pthread_create(&space->thread, NULL, look_now_and_then, space);
        space->has_thread = !error;
    }
    if (error) {
        free_space(space);
        return error;
    }
    *opened = space;
    return 0;
}

void fileops_space_close(struct fileops_space *space)
{
    if (!space)
        return;
    if (space->has_thread) {
        pthread_mutex_lock(&space->thread_state);
        space->stop = true;
        pthread_cond_signal(&space->thread_wake);
        pthread_mutex_unlock(&space->thread_state);
        pthread_join(space->thread, NULL);
    }
    pthread_mutex_lock(&space->order);
    if (!space_lower(space, false) && space->exact) {
        fileops_ledger_begin(space->ledger);
        fileops_ledger_set(space->ledger, "clean", 1);
        fileops_ledger_commit(space->ledger);
    }
    space_order_end(space);
    free_space(space);
}

/* What who asks is told until `order` is let go of the next time. With `order` held. */
static void publish(struct fileops_space *space)
{
    const bool has_holder = atomic_load(&space->has_holder);
    const int error = fileops_ledger_error(space->ledger);
    struct fileops_space_status status = {.thick_default = atomic_load(&space->thick_default),
                                          .held_bytes = space->held,
                                          .needed_bytes = space->needed,
                                          .foreign_changes = space->foreign_changes};
    memcpy(status.problem, space->problem, sizeof status.problem);
    pthread_mutex_lock(&space->state);
    status.can_reserve = has_holder && space->figures.can_promise;
    status.reservations = status.can_reserve                     ? FILEOPS_RESERVATIONS_POSSIBLE
                          : space->find_holder && !has_holder ? FILEOPS_RESERVATIONS_NOT_NOW
                                                              : FILEOPS_RESERVATIONS_NEVER;
    if (status.thick_default && status.reservations == FILEOPS_RESERVATIONS_NEVER && !status.problem[0])
        snprintf(status.problem, sizeof status.problem, "%s: nothing can be promised, so that no file can be made larger than 1 MiB",
                 space->find_holder ? "deduplication is on" : "zfs(8) can't be run");
    if (error && !status.problem[0])
        snprintf(status.problem, sizeof status.problem, "the ledger can't be written (%s): nothing is promised and nothing shared until it can",
                 strerror(error));
    if (error && status.can_reserve) {
        status.can_reserve = false;
        status.reservations = FILEOPS_RESERVATIONS_NOT_NOW;
    }
    status.thick_files = space->thick_count;
    status.shared_bytes = fileops_share_map_bytes(space->map);
    status.thick_bytes = space->sum_promised > UINT64_MAX ? UINT64_MAX : (uint64_t)space->sum_promised;
    space->published = status;
    pthread_mutex_unlock(&space->state);
}

void space_order_end(struct fileops_space *space)
{
    publish(space);
    pthread_mutex_unlock(&space->order);
}

void fileops_space_status(struct fileops_space *space, struct fileops_space_status *status)
{
    pthread_mutex_lock(&space->state);
    *status = space->published;
    pthread_mutex_unlock(&space->state);
}
