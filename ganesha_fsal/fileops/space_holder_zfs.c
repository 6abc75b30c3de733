/* Space of a dataset held by its refreservation, by zfs(8) and zpool(8): libzfs has no stable interface. */
#include "program.h"
#include "space_holder.h"

#include <errno.h>
#include <inttypes.h>
#include <mntent.h>
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
    uint64_t copies; /* the most it had since this was opened */
    uint64_t sample[LARGEST_SHIFT + 1]; /* by block size; 0: could not be asked */
};

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

/* The value after NAME and a tab in lines of `zfs get -Hp -o property,value`. */
static int property(const char *lines, const char *name, uint64_t *value)
{
    const size_t length = strlen(name);
    for (const char *line = lines; line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, name, length) && line[length] == '\t')
            return strcmp(line + length + 1, "none") && line[length + 1] != '-' ? number(line + length + 1, value) : (*value = 0, 0);
    return EPROTO;
}

/* Whether there is such a line. */
static bool is_set_to(const char *lines, const char *name, const char *value)
{
    const size_t name_length = strlen(name), length = strlen(value);
    for (const char *line = lines; line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, name, name_length) && line[name_length] == '\t' && !strncmp(line + name_length + 1, value, length) &&
            (line[name_length + 1 + length] == '\n' || !line[name_length + 1 + length]))
            return true;
    return false;
}

static int zfs_read(void *context, struct fileops_held *figures)
{
    struct zfs_context *zfs = context;
    const struct zfs_dataset *dataset = &zfs->dataset;
    char output[1024];
    uint64_t copies = 0, pool_used = 0, pool_available = 0;
    int error = run(dataset, (const char *const[]){"zfs", "get", "-Hpo", "property,value",
                    "refreservation,usedbyrefreservation,referenced,available,copies,dedup,checksum", dataset->name, NULL}, output, sizeof output);
    if (!error)
        error = property(output, "refreservation", &figures->held);
    if (!error)
        error = property(output, "usedbyrefreservation", &figures->unused);
    if (!error)
        error = property(output, "referenced", &figures->referenced);
    if (!error)
        error = property(output, "available", &figures->available);
    if (!error)
        error = property(output, "copies", &copies);
    if (!error) {
        /* Blocks that were written with more stay so until they are overwritten. */
        zfs->copies = copies > zfs->copies ? copies : zfs->copies;
        figures->can_promise = is_set_to(output, "dedup", "off");
        /* zio_nop_write: an overwrite with the same data changes nothing, with checksums that are trusted so far. */
        figures->overwrites_unshare = is_set_to(output, "checksum", "on") || is_set_to(output, "checksum", "off") ||
                                      is_set_to(output, "checksum", "fletcher2") || is_set_to(output, "checksum", "fletcher4");
        error = run(dataset, (const char *const[]){"zpool", "get", "-Hpo", "property,value", "bclonesaved", dataset->pool, NULL}, output,
                    sizeof output);
    }
    if (!error)
        error = property(output, "bclonesaved", &figures->shared);
    if (!error)
        error = run(dataset, (const char *const[]){"zfs", "get", "-Hpo", "property,value", "used,available", dataset->pool, NULL}, output,
                    sizeof output);
    if (!error)
        error = property(output, "used", &pool_used);
    if (!error)
        error = property(output, "available", &pool_available);
    if (error)
        return error;
    const uint64_t slop = (pool_used + pool_available) >> SPA_SLOP_SHIFT;
    figures->overdraft = (slop > SPA_MIN_SLOP ? slop : SPA_MIN_SLOP) / 4;
    return 0;
}

static int zfs_hold(void *context, uint64_t bytes)
{
    const struct zfs_dataset *dataset = context;
    char setting[64], output[64];
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
        .close = zfs_close,
        .context = zfs,
        .slack = UINT64_C(128) << 20,
    };
    zfs = NULL;
exit:
    free(zfs);
    return error == ENOENT ? EOPNOTSUPP : error;
}
