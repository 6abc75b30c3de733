/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* A program for tests: one operation of the library a line, from standard input, on datasets that stay open.
 *
 *   open ROOT [THICK_SIZE]               a dataset; answers are "ok ..." or "error NAME"
 *   close
 *   stat PATH
 *   clone full|fast SOURCE DIRECTORY NAME
 *   into full|fast SOURCE DESTINATION
 *   write PATH OFFSET LENGTH SEED [sync] bytes that no compression makes smaller, as the write path makes them, in pieces of PIECE
 *   truncate PATH SIZE | punch PATH OFFSET LENGTH | remove PATH
 *   piece BYTES
 *
 * A second dataset is opened by `open2 ROOT [THICK_SIZE]`: paths below its root are on it. */
#include "../changes.h"
#include "../clone.h"
#include "../interlock.h"
#include "../retry.h"
#include "../statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct fileops_dataset *datasets[2];
static char roots[2][4096];
static uint64_t piece = 1 << 20;

static double tool_now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static struct fileops_dataset *tool_dataset_of(const char *path)
{
    for (int i = 0; i < 2; i++)
        if (datasets[i] && !strncmp(path, roots[i], strlen(roots[i])))
            return datasets[i];
    return NULL;
}

static int tool_open_dataset(int which, char **words, int count)
{
    const double begin = tool_now();
    if (count < 2)
        return EINVAL;
    int error = fileops_dataset_open(words[1], &datasets[which]);
    if (!error && count > 2)
        error = fileops_dataset_set_thick(datasets[which], strtoull(words[2], NULL, 10));
    if (!error) {
        snprintf(roots[which], sizeof roots[which], "%s", words[1]);
        printf("ok seconds %f\n", tool_now() - begin);
    }
    return error;
}

static int tool_clone_files(const struct fileops_clone_request *request)
{
    struct fileops_clone_result result;
    const double begin = tool_now();
    const int error = fileops_clone(request, &result);
    if (error)
        return error;
    printf("ok seconds %f done %" PRIu64 " cloned %" PRIu64 " copied %" PRIu64 " holes %" PRIu64, tool_now() - begin, result.done,
           result.cloned, result.copied, result.holes);
    for (int i = 0; i < FILEOPS_FALLBACK_COUNT; i++)
        if (result.fallback[i])
            printf(" %s %" PRIu64, fileops_fallback_name((enum fileops_fallback)i), result.fallback[i]);
    printf("\n");
    return 0;
}

static int tool_clone_command(char **words, int count)
{
    const bool by_name = !strcmp(words[0], "clone");
    struct fileops_clone_request request = {.destination = -1, .directory = -1, .source = -1, .mode_bits = 0644};
    int error = 0;
    if (count < (by_name ? 5 : 4))
        return EINVAL;
    request.mode = !strcmp(words[1], "fast") ? FILEOPS_CLONE_FAST : FILEOPS_CLONE_FULL;
    request.source = open(words[2], O_RDONLY | O_CLOEXEC);
    request.source_dataset = tool_dataset_of(words[2]);
    request.destination_dataset = tool_dataset_of(words[3]);
    if (by_name) {
        request.directory = open(words[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        request.name = words[4];
    } else {
        request.destination = open(words[3], O_RDWR | O_CLOEXEC);
    }
    if (!request.source_dataset || !request.destination_dataset)
        error = EINVAL;
    else if (request.source < 0 || (request.directory < 0 && request.destination < 0))
        error = ENOENT;
    if (!error)
        error = tool_clone_files(&request);
    if (request.source >= 0)
        close(request.source);
    if (request.directory >= 0)
        close(request.directory);
    if (request.destination >= 0)
        close(request.destination);
    return error;
}

static void tool_fill(char *buffer, uint64_t length, uint64_t *seed)
{
    for (uint64_t i = 0; i + 8 <= length; i += 8) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        memcpy(buffer + i, seed, 8);
    }
}

struct open_file {
    struct fileops_dataset *dataset;
    struct stat status;
    int file;
    uint64_t retries;
};

static int tool_write_piece(struct open_file *of, uint64_t offset, uint64_t length, const char *data)
{
    struct fileops_retry retry = {0};
    uint64_t done = 0;
    int error = 0;
    while (done < length && !error) {
        const ssize_t written = pwrite(of->file, data + done, length - done, (off_t)(offset + done));
        if (written >= 0)
            done += (uint64_t)written;
        else if (fileops_may_retry(of->dataset, errno, of->file, &retry))
            of->retries++;
        else
            error = errno;
    }
    return error;
}

/* As the FSAL makes it. */
static int tool_admit_and_write(struct open_file *of, uint64_t offset, uint64_t length, const char *data)
{
    struct admission_change change;
    int error = fileops_growth_begin(of->dataset, of->status.st_ino, offset + length, &change);
    if (error == ENODATA) {
        fileops_growth_count(of->dataset, of->status.st_ino, (uint64_t)of->status.st_size);
        error = fileops_growth_begin(of->dataset, of->status.st_ino, offset + length, &change);
    }
    if (error)
        return error;
    error = tool_write_piece(of, offset, length, data);
    fstat(of->file, &of->status);
    fileops_growth_end(of->dataset, &change, error ? (uint64_t)of->status.st_size : UINT64_MAX);
    return error;
}

static int tool_write_command(struct open_file *of, char **words, int count)
{
    const bool sync = count > 5 && !strcmp(words[5], "sync");
    const uint64_t offset = strtoull(words[2], NULL, 10), length = strtoull(words[3], NULL, 10);
    uint64_t seed = strtoull(words[4], NULL, 10) * 2654435761u + 88172645463325252u;
    char *buffer = malloc(piece);
    int error = buffer ? 0 : ENOMEM;
    for (uint64_t at = 0; at < length && !error; at += piece) {
        const uint64_t size = length - at < piece ? length - at : piece;
        tool_fill(buffer, size, &seed);
        error = tool_admit_and_write(of, offset + at, size, buffer);
        if (!error && sync && fdatasync(of->file))
            error = errno;
    }
    free(buffer);
    return error;
}

/* Blocks are freed: truncated, or punched. */
static int tool_free_command(struct open_file *of, char **words, int count)
{
    const off_t offset = (off_t)strtoull(words[2], NULL, 10);
    int error = fileops_freeing_begin(of->dataset, of->status.st_ino);
    if (error)
        return error;
    if (count < 4)
        error = ftruncate(of->file, offset) ? errno : 0;
    else
        error = fallocate(of->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, (off_t)strtoull(words[3], NULL, 10))
                    ? errno
                    : 0;
    fileops_freeing_end(of->dataset, of->status.st_ino);
    return error;
}

static int tool_change_command(char **words, int count)
{
    const bool writes = !strcmp(words[0], "write"), truncates = !strcmp(words[0], "truncate");
    if (count < (writes ? 5 : truncates ? 3 : 4) || !tool_dataset_of(words[1]))
        return EINVAL;
    struct open_file of = {.dataset = tool_dataset_of(words[1]), .file = open(words[1], O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
    if (of.file < 0 || fstat(of.file, &of.status))
        return errno;
    const double begin = tool_now();
    const int error = writes ? tool_write_command(&of, words, count) : tool_free_command(&of, words, count);
    close(of.file);
    if (!error)
        printf("ok retries %" PRIu64 " seconds %f\n", of.retries, tool_now() - begin);
    return error;
}

static int tool_remove_command(const char *path)
{
    struct stat status;
    if (!tool_dataset_of(path))
        return EINVAL;
    if (stat(path, &status) || unlink(path))
        return errno;
    if (status.st_nlink == 1)
        fileops_growth_forget(tool_dataset_of(path), status.st_ino);
    printf("ok\n");
    return 0;
}

static int tool_stat_command(const char *path)
{
    struct fileops_statistics statistics;
    struct timespec until;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    if (file < 0 || !tool_dataset_of(path))
        return file < 0 ? errno : EINVAL;
    const int error = fileops_statistics(tool_dataset_of(path), file, &until, &statistics);
    close(file);
    if (!error)
        printf("ok total %" PRIu64 " allocated %" PRIu64 " unique %" PRIu64 " exact %d snapshot %" PRIu64 " deduplicated %" PRIu64
               " reserved %" PRIu64 "\n",
               statistics.total, statistics.allocated, statistics.unique, statistics.unique_exact, statistics.snapshot,
               statistics.deduplicated, statistics.reserved);
    return error;
}

static int tool_close_command(void)
{
    for (int i = 0; i < 2; i++) {
        if (datasets[i])
            fileops_dataset_put(datasets[i]);
        datasets[i] = NULL;
    }
    printf("ok\n");
    return 0;
}

static int tool_run(char **words, int count)
{
    const char *word = words[0];
    if (!strcmp(word, "open") || !strcmp(word, "open2"))
        return tool_open_dataset(word[4] == '2', words, count);
    if (!strcmp(word, "clone") || !strcmp(word, "into"))
        return tool_clone_command(words, count);
    if (!strcmp(word, "write") || !strcmp(word, "truncate") || !strcmp(word, "punch"))
        return tool_change_command(words, count);
    if (count > 1 && !strcmp(word, "stat"))
        return tool_stat_command(words[1]);
    if (count > 1 && !strcmp(word, "remove"))
        return tool_remove_command(words[1]);
    if (count > 1 && !strcmp(word, "piece") && strtoull(words[1], NULL, 10)) {
        piece = strtoull(words[1], NULL, 10);
        printf("ok\n");
        return 0;
    }
    return !strcmp(word, "close") ? tool_close_command() : EINVAL;
}

int main(void)
{
    char line[8192];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        char *words[16], *rest = NULL;
        int count = 0;
        for (char *word = strtok_r(line, " \n", &rest); word && count < 16; word = strtok_r(NULL, " \n", &rest))
            words[count++] = word;
        const int error = count ? tool_run(words, count) : 0;
        if (error)
            printf("error %s\n", strerrorname_np(error));
    }
    return 0;
}
