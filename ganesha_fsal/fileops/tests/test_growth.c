/* A file that one extends while another appends keeps all that was appended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "growth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD 512
#define RECORDS 60000

struct appended {
    int file;
    dev_t device;
    uint64_t inode;
    atomic_uint_least64_t end; /* so large the file is at least */
    atomic_bool done;
    bool lost;
};

static int temporary_file(void)
{
    char path[] = "/tmp/growth.XXXXXX";
    const int file = mkstemp(path);
    unlink(path);
    return file;
}

/* As the FSAL writes for a client that appends where it knows the end to be. */
static void *append(void *context)
{
    struct appended *appended = context;
    char record[RECORD];
    struct stat status;
    for (int i = 0; i < RECORD; i++)
        record[i] = 'r';
    for (int i = 0; i < RECORDS && !appended->lost; i++) {
        const uint64_t at = atomic_load(&appended->end);
        fileops_growth_begin(appended->device, appended->inode, false);
        const ssize_t written = pwrite(appended->file, record, RECORD, (off_t)at);
        fileops_growth_end(appended->device, appended->inode);
        atomic_store(&appended->end, at + RECORD);
        /* What cut it off would make it longer again: the last byte tells. */
        char last = 0;
        appended->lost = written != RECORD || fstat(appended->file, &status) || (uint64_t)status.st_size < at + RECORD ||
                         pread(appended->file, &last, 1, (off_t)(at + RECORD - 1)) != 1 || last != 'r';
    }
    atomic_store(&appended->done, true);
    return NULL;
}

static void nothing_appended_is_cut_off(void **state)
{
    struct appended appended = {.file = temporary_file()};
    struct stat status;
    pthread_t thread;
    uint64_t random = 1;
    (void)state;
    assert_true(appended.file >= 0);
    assert_int_equal(fstat(appended.file, &status), 0);
    appended.device = status.st_dev;
    appended.inode = status.st_ino;
    assert_int_equal(pthread_create(&thread, NULL, append, &appended), 0);
    while (!atomic_load(&appended.done)) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        assert_int_equal(fileops_extend(NULL, appended.file, atomic_load(&appended.end) + (random >> 33) % (4 * RECORD)), 0);
    }
    pthread_join(thread, NULL);
    assert_false(appended.lost);
    assert_int_equal(fstat(appended.file, &status), 0);
    assert_true(status.st_size >= RECORD * RECORDS);
    char *all = malloc(RECORD * RECORDS);
    assert_int_equal(pread(appended.file, all, RECORD * RECORDS, 0), RECORD * RECORDS);
    for (int i = 0; i < RECORD * RECORDS; i++)
        if (all[i] != 'r')
            fail_msg("byte %d was cut off", i);
    free(all);
    close(appended.file);
}

static void extends_and_never_shortens(void **state)
{
    const int file = temporary_file();
    struct stat status;
    (void)state;
    assert_int_equal(fileops_extend(NULL, file, 1000), 0);
    assert_int_equal(fileops_extend(NULL, file, 10), 0);
    assert_int_equal(fstat(file, &status), 0);
    assert_int_equal(status.st_size, 1000);
    close(file);
    assert_int_equal(fileops_extend(NULL, file, 2000), EBADF);
}

static void *begin_alone(void *file)
{
    const struct stat *status = file;
    if (fileops_growth_begin(status->st_dev, status->st_ino, true))
        return file;
    fileops_growth_end(status->st_dev, status->st_ino);
    return NULL;
}

/* Datasets number their files alike: one that is held up does not hold up those of its number elsewhere. */
static void files_of_one_number_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct stat other = {.st_dev = 2, .st_ino = 2};
    pthread_t thread;
    void *waited;
    assert_int_equal(fileops_growth_begin(1, 2, true), 0);
    assert_int_equal(pthread_create(&thread, NULL, begin_alone, &other), 0);
    assert_int_equal(pthread_join(thread, &waited), 0);
    fileops_growth_end(1, 2);
    assert_null(waited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_appended_is_cut_off),
        cmocka_unit_test(files_of_one_number_do_not_wait_for_each_other),
        cmocka_unit_test(extends_and_never_shortens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
