/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Which exports keep the books of a file system open, with ganesha's lists of claims made by hand. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../fileops/space.h"
#include "../books.h"
#include "FSAL/fsal_localfs.h"
#include "fsal.h"

/* In place of libganesha_nfsd. */
pthread_rwlock_t fs_lock = PTHREAD_RWLOCK_INITIALIZER;
static log_levels_t quiet[COMPONENT_COUNT];
log_levels_t *component_log_level = quiet;

void DisplayLogComponentLevel(log_components_t component, const char *file, int line, const char *function, log_levels_t level,
                              const char *format, ...)
{
    (void)component;
    (void)file;
    (void)line;
    (void)function;
    (void)level;
    (void)format;
}

static struct fsal_filesystem file_system;
static bool known; /* to ganesha */

struct fsal_filesystem *lookup_fsid_locked(struct fsal_fsid__ *fsid, enum fsid_type type)
{
    assert_int_equal(type, FSID_TWO_UINT64);
    return known && fsid->major == file_system.fsid.major ? &file_system : NULL;
}

static struct fsal_export above, nested;
static struct fsal_filesystem_export_map claims[2];

static void claim(int number, struct fsal_export *export)
{
    claims[number].exp = export;
    glist_add_tail(&file_system.exports, &claims[number].on_exports);
}

static int set_up(void **state)
{
    const char *folder = getenv("TMPDIR");
    char path[256];

    (void)state;
    snprintf(path, sizeof(path), "%s/books.XXXXXX", folder != NULL ? folder : "/tmp");
    file_system = (struct fsal_filesystem){ .path = strdup(mkdtemp(path)), .type = strdup("xfs"), .fsid = { .major = 7 },
                                            .fsid_type = FSID_TWO_UINT64, .dev = { .major = 1, .minor = 2 } };
    glist_init(&file_system.exports);
    known = true;
    return 0;
}

static int tear_down(void **state)
{
    char command[300];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", file_system.path);
    free(file_system.path);
    free(file_system.type);
    return system(command);
}

/* The books are open as long as nobody else can open them. */
static bool are_open(void)
{
    struct fileops_space *space = NULL;
    int error = fileops_space_open(file_system.path, NULL, &space);

    if (error == 0)
        fileops_space_close(space);
    return error == EBUSY;
}

static void an_export_that_reaches_it_keeps_them(void **state)
{
    struct fileops_space *space = NULL, *again = NULL;

    (void)state;
    claim(0, &above);
    claim(1, &nested);
    /* Only one of them was told of: the other's objects come out of MDCACHE. */
    assert_int_equal(books_use(&nested, &file_system, &space), 0);
    assert_non_null(space);
    books_leave(&nested);
    glist_del(&claims[1].on_exports);
    assert_true(are_open());
    assert_int_equal(books_use(&above, &file_system, &again), 0);
    assert_ptr_equal(space, again);
    books_leave(&above);
    assert_false(are_open());
}

static void the_last_claim_closes_them(void **state)
{
    struct fileops_space *space = NULL;

    (void)state;
    claim(0, &above);
    claim(1, &nested);
    assert_int_equal(books_use(&nested, &file_system, &space), 0);
    books_leave(&nested);
    glist_del(&claims[1].on_exports);
    assert_true(are_open());
    /* It never used them by itself. */
    books_leave(&above);
    assert_false(are_open());
}

static void who_uses_them_without_a_claim_keeps_them(void **state)
{
    struct fileops_space *space = NULL, *again = NULL;
    struct fsal_filesystem remade;

    (void)state;
    claim(0, &nested);
    assert_int_equal(books_use(&nested, &file_system, &space), 0);
    assert_int_equal(books_use(&above, &file_system, &again), 0);
    books_leave(&nested);
    /* ganesha forgets the file system, and finds it again later. */
    known = false;
    remade = file_system;
    assert_true(are_open());
    assert_int_equal(books_use(&above, &remade, &again), 0);
    assert_ptr_equal(space, again);
    books_leave(&above);
    assert_false(are_open());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_export_that_reaches_it_keeps_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_claim_closes_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_uses_them_without_a_claim_keeps_them, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
