/* A program for tests: one operation of the library a line, from standard input, on datasets that stay open.
 *
 *   open ROOT [zfs]                      the books of a dataset, with its holder; answers are "ok ..." or "error NAME"
 *   close | maintain | status
 *   reserve PATH | unreserve PATH
 *   stat PATH
 *   clone full|fast SOURCE DIRECTORY NAME [guarded] [dry]
 *   into full|fast SOURCE DESTINATION
 *   range full|fast SOURCE OFFSET DESTINATION OFFSET LENGTH
 *   write PATH OFFSET LENGTH SEED [sync] bytes that no compression makes smaller, by the rules of the write path, in pieces of PIECE
 *   truncate PATH SIZE | punch PATH OFFSET LENGTH | remove PATH
 *   piece BYTES
 *
 * A second dataset is opened by `open2 ROOT [zfs]`: paths below its root are of its books. */
#include "fileops.h"
#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct fileops_space *spaces[2];
static char roots[2][4096];
static uint64_t piece = 1 << 20;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static struct fileops_space *space_of(const char *path)
{
    for (int i = 0; i < 2; i++)
        if (spaces[i] && !strncmp(path, roots[i], strlen(roots[i])))
            return spaces[i];
    return NULL;
}

static int answer(int error)
{
    if (error)
        printf("error %s\n", strerrorname_np(error));
    return error;
}

static int open_books(int which, char **words, int count)
{
    const bool zfs = count > 2 && !strcmp(words[2], "zfs");
    const double begin = now();
    if (count < 2)
        return EINVAL;
    const int error = fileops_space_open(words[1], &(struct fileops_space_options){.find_holder = zfs ? fileops_zfs_holder : NULL}, &spaces[which]);
    if (!error) {
        snprintf(roots[which], sizeof roots[which], "%s", words[1]);
        printf("ok seconds %f\n", now() - begin);
    }
    return error;
}

static int tell_clone(const struct fileops_clone_request *request)
{
    struct fileops_clone_result result;
    const double begin = now();
    const int error = fileops_clone(request, &result);
    if (error)
        return error;
    printf("ok seconds %f done %" PRIu64 " cloned %" PRIu64 " copied %" PRIu64 " holes %" PRIu64, now() - begin, result.done, result.cloned,
           result.copied, result.holes);
    for (int i = 0; i < FILEOPS_FALLBACK_COUNT; i++)
        if (result.fallback[i])
            printf(" %s %" PRIu64, fileops_fallback_name((enum fileops_fallback)i), result.fallback[i]);
    printf("\n");
    return 0;
}

static int clone_command(char **words, int count)
{
    struct fileops_clone_request request = {.destination = -1, .directory = -1, .source = -1, .mode_bits = (mode_t)-1, .whole = true};
    int error = 0;
    if (count < 4)
        return EINVAL;
    request.mode = !strcmp(words[1], "fast") ? FILEOPS_CLONE_FAST : FILEOPS_CLONE_FULL;
    request.source = open(words[2], O_RDONLY | O_CLOEXEC);
    request.source_space = space_of(words[2]);
    if (!strcmp(words[0], "clone") && count > 4) {
        request.directory = open(words[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        request.destination_space = space_of(words[3]);
        request.name = words[4];
        for (int i = 5; i < count; i++)
            request.flags |= !strcmp(words[i], "guarded") ? FILEOPS_CLONE_GUARDED : FILEOPS_CLONE_DRY_RUN;
    } else if (!strcmp(words[0], "into")) {
        request.destination = open(words[3], O_RDWR | O_CLOEXEC);
        request.destination_space = space_of(words[3]);
    } else if (count > 6) {
        request.whole = false;
        request.source_offset = strtoull(words[3], NULL, 10);
        request.destination = open(words[4], O_RDWR | O_CLOEXEC);
        request.destination_space = space_of(words[4]);
        request.destination_offset = strtoull(words[5], NULL, 10);
        request.length = strtoull(words[6], NULL, 10);
    }
    if (request.source < 0 || (request.directory < 0 && request.destination < 0))
        error = ENOENT;
    if (!error)
        error = tell_clone(&request);
    if (request.source >= 0)
        close(request.source);
    if (request.directory >= 0)
        close(request.directory);
    if (request.destination >= 0)
        close(request.destination);
    return error;
}

static void fill(char *buffer, uint64_t length, uint64_t *seed)
{
    for (uint64_t i = 0; i + 8 <= length; i += 8) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        memcpy(buffer + i, seed, 8);
    }
}

/* One change as the FSAL makes it. */
static int change(struct fileops_space *space, int file, uint64_t inode, enum fileops_change_kind kind, uint64_t offset, uint64_t length,
                  const char *data, uint64_t *retries)
{
    struct fileops_change told;
    uint64_t done = 0;
    int error = 0;
    if (space && kind != FILEOPS_DEALLOCATE && fileops_growth_needs_promise(space, inode, offset + length))
        error = fileops_promise_growth(space, file, offset + length, kind == FILEOPS_WRITE);
    if (!error && space)
        error = fileops_change_begin(space, inode, kind, offset, length, &told);
    if (error)
        return error;
    for (unsigned attempt = 0;; attempt++) {
        error = 0;
        while (kind == FILEOPS_WRITE && done < length && !error) {
            const ssize_t written = pwrite(file, data + done, length - done, (off_t)(offset + done));
            if (written < 0)
                error = errno;
            else
                done += (uint64_t)written;
        }
        if (kind == FILEOPS_TRUNCATE)
            error = ftruncate(file, (off_t)offset) ? errno : 0;
        else if (kind == FILEOPS_DEALLOCATE)
            error = fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length) ? errno : 0;
        if (error != ENOSPC || !space || fileops_change_retry(space, &told, attempt))
            break;
        ++*retries;
    }
    if (space)
        fileops_change_end(space, &told, error);
    return error;
}

static int change_command(char **words, int count)
{
    const bool write = !strcmp(words[0], "write"), truncate = !strcmp(words[0], "truncate");
    const bool sync = count > 5 && !strcmp(words[5], "sync");
    struct stat status;
    uint64_t retries = 0;
    int error = 0;
    if (count < (write ? 5 : truncate ? 3 : 4))
        return EINVAL;
    struct fileops_space *space = space_of(words[1]);
    const uint64_t offset = strtoull(words[2], NULL, 10), length = truncate ? 0 : strtoull(words[3], NULL, 10);
    uint64_t seed = write ? strtoull(words[4], NULL, 10) * 2654435761u + 88172645463325252u : 0;
    const int file = open(words[1], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    char *buffer = malloc(piece);
    if (file < 0 || !buffer || fstat(file, &status))
        error = errno;
    const double begin = now();
    if (!error && !write)
        error = change(space, file, status.st_ino, truncate ? FILEOPS_TRUNCATE : FILEOPS_DEALLOCATE, offset, length, NULL, &retries);
    for (uint64_t at = 0; at < length && write && !error; at += piece) {
        const uint64_t size = length - at < piece ? length - at : piece;
        fill(buffer, size, &seed);
        error = change(space, file, status.st_ino, FILEOPS_WRITE, offset + at, size, buffer, &retries);
        if (!error && sync && fdatasync(file))
            error = errno;
    }
    free(buffer);
    if (file >= 0)
        close(file);
    if (!error)
        printf("ok retries %" PRIu64 " seconds %f\n", retries, now() - begin);
    return error;
}

static int remove_command(const char *path)
{
    struct stat status;
    struct fileops_space *space = space_of(path);
    if (stat(path, &status) || unlink(path))
        return errno;
    if (space && status.st_nlink == 1)
        fileops_file_removed(space, status.st_ino, false);
    printf("ok\n");
    return 0;
}

static int file_command(char **words)
{
    struct fileops_statistics statistics;
    uint64_t reserved = 0;
    struct fileops_space *space = space_of(words[1]);
    const int file = open(words[1], O_RDONLY | O_CLOEXEC);
    int error = file < 0 ? errno : 0;
    if (!error && !strcmp(words[0], "stat")) {
        error = fileops_statistics(space, file, &statistics);
        if (!error)
            printf("ok total %" PRIu64 " allocated %" PRIu64 " unique %" PRIu64 " exact %d reserved %" PRIu64 "\n", statistics.total,
                   statistics.allocated, statistics.unique, statistics.unique_exact, statistics.reserved);
    } else if (!error && space) {
        error = !strcmp(words[0], "reserve") ? fileops_reserve(space, file, &reserved) : fileops_unreserve(space, file);
        if (!error)
            printf("ok reserved %" PRIu64 "\n", reserved);
    } else if (!error) {
        error = EINVAL;
    }
    if (file >= 0)
        close(file);
    return error;
}

static int status_command(void)
{
    struct fileops_space_status status;
    if (!spaces[0])
        return EINVAL;
    fileops_space_status(spaces[0], &status);
    printf("ok thick_files %" PRIu64 " thick_bytes %" PRIu64 " shared_bytes %" PRIu64 " held_bytes %" PRIu64 " needed_bytes %" PRIu64
           " foreign_changes %" PRIu64 " problem %s\n",
           status.thick_files, status.thick_bytes, status.shared_bytes, status.held_bytes, status.needed_bytes, status.foreign_changes,
           status.problem[0] ? "yes" : "no");
    return 0;
}

static int run(char **words, int count)
{
    const char *word = words[0];
    if (!strcmp(word, "open") || !strcmp(word, "open2"))
        return open_books(word[4] == '2', words, count);
    if (!strcmp(word, "status"))
        return status_command();
    if (!strcmp(word, "clone") || !strcmp(word, "into") || !strcmp(word, "range"))
        return clone_command(words, count);
    if (!strcmp(word, "write") || !strcmp(word, "truncate") || !strcmp(word, "punch"))
        return change_command(words, count);
    if (count > 1 && (!strcmp(word, "stat") || !strcmp(word, "reserve") || !strcmp(word, "unreserve")))
        return file_command(words);
    if (count > 1 && !strcmp(word, "remove"))
        return remove_command(words[1]);
    if (count > 1 && !strcmp(word, "piece") && strtoull(words[1], NULL, 10)) {
        piece = strtoull(words[1], NULL, 10);
        printf("ok\n");
        return 0;
    }
    if (!strcmp(word, "maintain") || !strcmp(word, "close")) {
        int error = 0;
        for (int i = 0; i < 2; i++)
            if (spaces[i] && word[0] == 'm') {
                error = error ? error : fileops_space_maintain(spaces[i]);
            } else {
                fileops_space_close(spaces[i]);
                spaces[i] = NULL;
            }
        if (!error)
            printf("ok\n");
        return error;
    }
    return EINVAL;
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
        if (count)
            answer(run(words, count));
    }
    return 0;
}
