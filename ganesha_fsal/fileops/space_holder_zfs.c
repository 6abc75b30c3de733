/* Space of a dataset held by its refreservation, by zfs(8) and zpool(8): libzfs has no stable interface. */
#include "program.h"
#include "space_holder.h"

#include <errno.h>
#include <inttypes.h>
#include <mntent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#define ZFS_MAX_DATASET_NAME_LEN 256
#define SECONDS 20.0

/* spa_min_slop and spa_slop_shift of zfs(4): what a pool keeps for itself. Beyond a part of it, even removing is refused. */
#define SPA_SLOP_SHIFT 5
#define SPA_MIN_SLOP (UINT64_C(128) << 20)

struct zfs_dataset {
    char name[ZFS_MAX_DATASET_NAME_LEN];
    char pool[ZFS_MAX_DATASET_NAME_LEN];
};

/* What zfs(8) would reserve for a volume with such blocks, of 1 GiB: metadata and parity are in it, `copies` is not. */
#define SAMPLE (UINT64_C(1) << 30)
#define SMALLEST_SHIFT 9
#define LARGEST_SHIFT 24

struct zfs_context {
    struct zfs_dataset dataset; /* first: what needs no more takes it for that */
    struct zfs_context *next;   /* of all in this process */
    bool holds;
    uint64_t copies; /* the most it had since this was opened */
    uint64_t capacity; /* what the pool has for all, but for what clones save; 0: not known yet */
    uint64_t sample[LARGEST_SHIFT + 1]; /* by block size; 0: could not be asked */
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct zfs_context *all; /* with `all_lock` held, as `next` and `holds` of each */

static void set_holds(struct zfs_context *zfs, bool holds)
{
    pthread_mutex_lock(&all_lock);
    zfs->holds = holds;
    pthread_mutex_unlock(&all_lock);
}

static unsigned zfs_sharers(void *context)
{
    const struct zfs_context *own = context;
    unsigned count = 0;
    pthread_mutex_lock(&all_lock);
    for (const struct zfs_context *zfs = all; zfs; zfs = zfs->next)
        count += zfs == own || (zfs->holds && !strcmp(zfs->dataset.pool, own->dataset.pool));
    pthread_mutex_unlock(&all_lock);
    return count;
}

static int run(const struct zfs_dataset *dataset, const char *const words[], char *output, size_t output_size)
{
    char errors[512];
    const int error = fileops_program_run(dataset->pool, words, SECONDS, output, output_size, errors, sizeof errors);
    if (error != EREMOTEIO)
        return error;
    if (strstr(errors, "size is greater than available space") || strstr(errors, "out of space"))
        return ENOSPC;
    if (strstr(errors, "permission denied") || strstr(errors, "Permission denied"))
        return EPERM;
    if (strstr(errors, "dataset does not exist"))
        return ENODEV;
    return EREMOTEIO;
}

static int number(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno || end == text ? EPROTO : 0;
}

/* What follows "DATASET <tab> PROPERTY <tab>" in lines of `zfs get -Hpo name,property,value`, or of zpool; NULL: there is none. */
static const char *find_property(const char *lines, const char *dataset, const char *name)
{
    const size_t dataset_length = strlen(dataset), length = strlen(name);
    for (const char *line = lines; line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, dataset, dataset_length) && line[dataset_length] == '\t' &&
            !strncmp(line + dataset_length + 1, name, length) && line[dataset_length + 1 + length] == '\t')
            return line + dataset_length + length + 2;
    return NULL;
}

static int property(const char *lines, const char *dataset, const char *name, uint64_t *value)
{
    const char *text = find_property(lines, dataset, name);
    if (!text)
        return EPROTO;
    return strncmp(text, "none", 4) && *text != '-' ? number(text, value) : (*value = 0, 0);
}

static bool is_set_to(const char *lines, const char *dataset, const char *name, const char *value)
{
    const char *text = find_property(lines, dataset, name);
    const size_t length = strlen(value);
    return text && !strncmp(text, value, length) && (text[length] == '\n' || !text[length]);
}

static int read_saved(const struct zfs_dataset *dataset, uint64_t *saved)
{
    char output[512];
    const int error = run(dataset, (const char *const[]){"zpool", "get", "-Hpo", "name,property,value", "bclonesaved", dataset->pool, NULL},
                          output, sizeof output);
    return error ? error : property(output, dataset->pool, "bclonesaved", saved);
}

/* The pool's own books say no less than that nothing is left. What it has in all, but for what clones save, stays as it was when something was. */
static uint64_t overcommitted(struct zfs_context *zfs, uint64_t used, uint64_t available, uint64_t least_saved, uint64_t most_saved, uint64_t slop)
{
    if (available) {
        zfs->capacity = used + available > most_saved ? used + available - most_saved : 0;
        return 0;
    }
    if (!zfs->capacity)
        return UINT64_MAX;
    const uint64_t more = used > zfs->capacity + least_saved ? used - zfs->capacity - least_saved : 0;
    /* A full pool has always promised a little more: what is written at once is let in by an estimate. */
    return more > slop / 8 ? more : 0;
}

static int zfs_read(void *context, struct fileops_held *figures)
{
    struct zfs_context *zfs = context;
    const struct zfs_dataset *dataset = &zfs->dataset;
    char output[8192];
    uint64_t copies = 0, pool_used = 0, pool_available = 0, saved_before = 0, saved_after = 0;
    /* Before the others and after them: they are not of one moment. */
    int error = read_saved(dataset, &saved_before);
    if (!error)
        error = run(dataset, (const char *const[]){"zfs", "get", "-Hpo", "name,property,value",
                    "refreservation,usedbyrefreservation,referenced,usedbydataset,used,available,copies,dedup,checksum", dataset->name, dataset->pool, NULL},
                    output, sizeof output);
    if (!error)
        error = read_saved(dataset, &saved_after);
    const struct {
        const char *dataset, *name;
        uint64_t *value;
    } numbers[] = {
        {dataset->name, "refreservation", &figures->held}, {dataset->name, "usedbyrefreservation", &figures->unused},
        {dataset->name, "referenced", &figures->referenced}, {dataset->name, "available", &figures->available},
        {dataset->name, "usedbydataset", &figures->own}, {dataset->name, "copies", &copies},
        {dataset->pool, "used", &pool_used}, {dataset->pool, "available", &pool_available},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !error; i++)
        error = property(output, numbers[i].dataset, numbers[i].name, numbers[i].value);
    if (error)
        return error;
    /* Blocks that were written with more stay so until they are overwritten. */
    zfs->copies = copies > zfs->copies ? copies : zfs->copies;
    figures->cost_version = zfs->copies;
    figures->can_promise = is_set_to(output, dataset->name, "dedup", "off");
    /* zio_nop_write: an overwrite with the same data changes nothing, with checksums that are trusted so far. */
    figures->overwrites_unshare = false;
    for (const char *const *checksum = (const char *const[]){"on", "off", "fletcher2", "fletcher4", NULL}; *checksum; checksum++)
        figures->overwrites_unshare = figures->overwrites_unshare || is_set_to(output, dataset->name, "checksum", *checksum);
    const uint64_t least_saved = saved_before < saved_after ? saved_before : saved_after;
    figures->shared = saved_before < saved_after ? saved_after : saved_before;
    set_holds(zfs, figures->held != 0);
    uint64_t slop = (pool_used + pool_available) >> SPA_SLOP_SHIFT;
    slop = slop > SPA_MIN_SLOP ? slop : SPA_MIN_SLOP;
    figures->overcommitted = overcommitted(zfs, pool_used, pool_available, least_saved, figures->shared, slop);
    figures->overdraft = slop / 4;
    return 0;
}

/* On, and set for this very dataset: what is inherited was meant for another, and what was received for the sender. By itself, as the values of
 * user properties are whatever somebody wrote. */
static int zfs_read_thick_default(void *context, bool *thick)
{
    const struct zfs_dataset *dataset = context;
    char output[8];
    const int error = run(dataset, (const char *const[]){"zfs", "get", "-Hp", "-s", "local", "-o", "value", "zvaai:thick", dataset->name, NULL},
                          output, sizeof output);
    *thick = !error && !strcmp(output, "on\n");
    return error;
}

static int zfs_hold(void *context, uint64_t bytes)
{
    const struct zfs_dataset *dataset = context;
    char setting[64], output[64];
    if (bytes) /* before others may rely on it */
        set_holds(context, true);
    if (bytes)
        snprintf(setting, sizeof setting, "refreservation=%" PRIu64, bytes);
    else
        snprintf(setting, sizeof setting, "refreservation=none");
    return run(dataset, (const char *const[]){"zfs", "set", setting, dataset->name, NULL}, output, sizeof output);
}

static int zfs_settle(void *context)
{
    const struct zfs_dataset *dataset = context;
    char output[64];
    return run(dataset, (const char *const[]){"zpool", "sync", dataset->pool, NULL}, output, sizeof output);
}

static uint64_t ask_sample(const struct zfs_dataset *dataset, unsigned shift)
{
    char size[32], name[ZFS_MAX_DATASET_NAME_LEN + 24], output[512];
    uint64_t bytes = 0;
    snprintf(size, sizeof size, "%u", 1u << shift);
    snprintf(name, sizeof name, "%s/fileops-never-made", dataset->name);
    if (run(dataset, (const char *const[]){"zfs", "create", "-nP", "-V", "1G", "-b", size, name, NULL}, output, sizeof output))
        return 0;
    const char *line = strstr(output, "property\trefreservation\t");
    return line && !number(line + strlen("property\trefreservation\t"), &bytes) ? bytes : 0;
}

static uint64_t zfs_cost(void *context, uint64_t size, uint32_t block_size)
{
    const struct zfs_context *zfs = context;
    unsigned shift = SMALLEST_SHIFT;
    while (shift < LARGEST_SHIFT && (UINT64_C(1) << shift) < block_size)
        shift++;
    const uint64_t block = UINT64_C(1) << shift, rounded = size > UINT64_MAX - block ? size : (size + block - 1) / block * block;
    /* Not asked, or no such volume: pairs of indirect pointers of 128 bytes, twice. */
    const uint64_t sample = zfs->sample[shift] ? zfs->sample[shift] : SAMPLE + SAMPLE / block * 512 + SAMPLE / 64;
    const unsigned __int128 cost = (unsigned __int128)rounded * sample / SAMPLE * zfs->copies + (UINT64_C(1) << 20);
    return cost > INT64_MAX ? INT64_MAX : (uint64_t)cost;
}

static void zfs_close(void *context)
{
    struct zfs_context **place = &all;
    pthread_mutex_lock(&all_lock);
    while (*place != context)
        place = &(*place)->next;
    *place = (*place)->next;
    pthread_mutex_unlock(&all_lock);
    free(context);
}

/* The dataset whose mount point `root` is. */
static int find_dataset(const char *root, char *name, size_t size)
{
    char line[4096], *real = realpath(root, NULL);
    struct mntent entry;
    int error = EOPNOTSUPP;
    FILE *mounts = setmntent("/proc/self/mounts", "r");
    if (mounts && real)
        while (getmntent_r(mounts, &entry, line, sizeof line))
            if (!strcmp(entry.mnt_dir, real)) /* the last is on top */
                error = strcmp(entry.mnt_type, "zfs") || strlen(entry.mnt_fsname) >= size ? EOPNOTSUPP
                                                                                          : (strcpy(name, entry.mnt_fsname), 0);
    if (mounts)
        endmntent(mounts);
    free(real);
    return error;
}

int fileops_zfs_holder(const char *root, struct fileops_space_holder *holder)
{
    struct statfs file_system;
    struct zfs_context *zfs = NULL;
    struct fileops_held figures;
    int error = 0;

    if (statfs(root, &file_system))
        return errno;
    if (file_system.f_type != ZFS_SUPER_MAGIC)
        return EOPNOTSUPP;
    zfs = calloc(1, sizeof *zfs);
    if (!zfs)
        return ENOMEM;
    error = find_dataset(root, zfs->dataset.name, sizeof zfs->dataset.name);
    if (error)
        goto exit;
    strcpy(zfs->dataset.pool, zfs->dataset.name);
    zfs->dataset.pool[strcspn(zfs->dataset.pool, "/")] = 0;
    error = zfs_read(zfs, &figures);
    if (error)
        goto exit;
    for (unsigned shift = 12; shift <= 20; shift++)
        zfs->sample[shift] = ask_sample(&zfs->dataset, shift);
    *holder = (struct fileops_space_holder){
        .read = zfs_read,
        .hold = zfs_hold,
        .settle = zfs_settle,
        .cost = zfs_cost,
        .sharers = zfs_sharers,
        .read_thick_default = zfs_read_thick_default,
        .close = zfs_close,
        .context = zfs,
        .slack = UINT64_C(128) << 20,
    };
    pthread_mutex_lock(&all_lock);
    zfs->next = all;
    all = zfs;
    pthread_mutex_unlock(&all_lock);
    zfs = NULL;
exit:
    free(zfs);
    return error == ENOENT ? EOPNOTSUPP : error;
}
