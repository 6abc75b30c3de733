/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../vmdk_list.h"

static int root;
static char place[256];

/* "swapped.vmdk" becomes another file, a descriptor, after its first check. */
static bool swaps;
int __real_openat64(int directory, const char *name, int flags, ...);
int __wrap_openat64(int directory, const char *name, int flags, ...);
int __real_fstatat64(int directory, const char *name, struct stat *attributes, int flags);
int __wrap_fstatat64(int directory, const char *name, struct stat *attributes, int flags);

static void swap(const char *name)
{
    if (swaps && strcmp(name, "swapped.vmdk") == 0)
        renameat(root, "other", root, "swapped.vmdk");
}

int __wrap_openat64(int directory, const char *name, int flags, ...)
{
    if (strcmp(name, "broken") == 0) {
        errno = EIO;
        return -1;
    }
    const int file = __real_openat64(directory, name, flags, 0600);

    swap(name);
    return file;
}

int __wrap_fstatat64(int directory, const char *name, struct stat *attributes, int flags)
{
    const int failed = __real_fstatat64(directory, name, attributes, flags);

    swap(name);
    return failed;
}

static int begin(void **state)
{
    const char *temporary = getenv("TMPDIR");

    (void)state;
    snprintf(place, sizeof(place), "%s/vmdk-XXXXXX", temporary != NULL ? temporary : "/tmp");
    root = mkdtemp(place) == NULL ? -1 : open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root < 0;
}

static int end(void **state)
{
    char command[300];

    (void)state;
    close(root);
    snprintf(command, sizeof(command), "rm -rf '%s'", place);
    return system(command);
}

static void write_file(const char *name, const char *text, off_t size)
{
    const int file = openat(root, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    assert_int_equal(ftruncate(file, size), 0);
    close(file);
}

/* All paths, by pages of `limit`. */
static void collect(size_t limit, char *all, size_t room, bool *incomplete)
{
    char after[1024] = "";
    bool more = true;

    all[0] = 0;
    *incomplete = false;
    while (more) {
        struct vmdk_list list = {.count = 0};
        assert_int_equal(vmdk_list(root, after, limit, NULL, NULL, &list), 0);
        assert_true(list.count <= limit);
        for (size_t i = 0; i < list.count; i++) {
            snprintf(all + strlen(all), room - strlen(all), "%s;", list.file[i].path);
            snprintf(after, sizeof(after), "%s", list.file[i].path);
        }
        more = list.more;
        *incomplete = *incomplete || list.incomplete;
        assert_true(!more || list.count == limit);
        vmdk_list_free(&list);
    }
}

static void files_with_data_are_found_in_pages(void **state)
{
    char all[4096];
    bool incomplete;

    (void)state;
    mkdirat(root, "vm", 0700);
    mkdirat(root, "vm-b", 0700);
    write_file("vm/disk.vmdk", "# Disk DescriptorFile\nversion=1\n", 600);
    write_file("vm/disk-flat.vmdk", "", 1 << 20);
    write_file("vm/disk-000001-delta.vmdk", "COWD", 4096);
    write_file("vm/vm.vmx", "x", 1);
    write_file("vm-b/disk-flat.VMDK", "# Disk DescriptorFile", 70000); /* too large for a descriptor */
    write_file("top.vmdk", "", 0);
    for (size_t limit = 1; limit < 6; limit++) {
        collect(limit, all, sizeof(all), &incomplete);
        assert_string_equal(all, "top.vmdk;vm-b/disk-flat.VMDK;vm/disk-000001-delta.vmdk;vm/disk-flat.vmdk;");
        assert_false(incomplete);
    }
}

static void sizes_are_reported(void **state)
{
    struct vmdk_list list = {.count = 0};

    (void)state;
    write_file("thin.vmdk", "data", 1 << 20);
    assert_int_equal(vmdk_list(root, "", 10, NULL, NULL, &list), 0);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.file[0].total_bytes, 1 << 20);
    assert_true(list.file[0].allocated_bytes > 0 && list.file[0].allocated_bytes < 1 << 20);
    vmdk_list_free(&list);
}

static void nothing_outside_is_seen(void **state)
{
    char all[4096];
    bool incomplete;

    (void)state;
    mkdirat(root, "inside", 0700);
    mkdirat(root, ".zvaai-clones", 0700);
    mkdirat(root, ".zfs", 0700);
    write_file("inside/a.vmdk", "", 1);
    write_file(".zvaai-clones/b.vmdk", "", 1);
    write_file(".zfs/c.vmdk", "", 1);
    assert_int_equal(symlinkat("inside", root, "link"), 0);
    assert_int_equal(symlinkat("inside/a.vmdk", root, "link.vmdk"), 0);
    assert_int_equal(symlinkat("/proc", root, "proc.vmdk"), 0);
    assert_int_equal(mkfifoat(root, "pipe.vmdk", 0600), 0);
    collect(10, all, sizeof(all), &incomplete);
    assert_string_equal(all, "inside/a.vmdk;");
    assert_false(incomplete);
}

static void what_is_left_out_is_said(void **state)
{
    char all[4096], path[64] = "";
    bool incomplete;

    (void)state;
    for (unsigned int depth = 0; depth < VMDK_LIST_DEPTH; depth++) {
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "%sd", depth == 0 ? "" : "/");
        mkdirat(root, path, 0700);
    }
    strcat(path, "/deep.vmdk");
    write_file(path, "", 1);
    collect(10, all, sizeof(all), &incomplete);
    assert_string_equal(all, "d/d/d/d/d/d/d/d/deep.vmdk;");
    assert_false(incomplete);
    mkdirat(root, "d/d/d/d/d/d/d/d/e", 0700);
    collect(10, all, sizeof(all), &incomplete);
    assert_true(incomplete);
    unlinkat(root, "d/d/d/d/d/d/d/d/e", AT_REMOVEDIR);
    static const char *const no_text[] = {"\xff.vmdk", "\xc0\x80.vmdk", "a\nb.vmdk", "\xed\xa0\x80.vmdk",
                                          "\xf4\x90\x80\x80.vmdk"};
    for (size_t i = 0; i < sizeof(no_text) / sizeof(no_text[0]); i++) {
        write_file(no_text[i], "", 1);
        collect(10, all, sizeof(all), &incomplete);
        assert_string_equal(all, "d/d/d/d/d/d/d/d/deep.vmdk;");
        assert_true(incomplete);
        unlinkat(root, no_text[i], 0);
    }
    write_file("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80.vmdk", "", 1);
    collect(10, all, sizeof(all), &incomplete);
    assert_string_equal(all, "d/d/d/d/d/d/d/d/deep.vmdk;\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80.vmdk;");
    assert_false(incomplete);
}

static void files_outside_a_broken_folder_are_found(void **state)
{
    char all[4096];
    bool incomplete;

    (void)state;
    mkdirat(root, "broken", 0700);
    mkdirat(root, "whole", 0700);
    write_file("broken/a.vmdk", "", 1);
    write_file("whole/b.vmdk", "", 1);
    collect(10, all, sizeof(all), &incomplete);
    assert_string_equal(all, "whole/b.vmdk;");
    assert_true(incomplete);
}

static void the_checked_file_is_the_one_that_is_read(void **state)
{
    struct vmdk_list list = {.count = 0};

    (void)state;
    write_file("swapped.vmdk", "data", 5000);
    write_file("other", "# Disk DescriptorFile", 600);
    swaps = true;
    assert_int_equal(vmdk_list(root, "", 10, NULL, NULL, &list), 0);
    swaps = false;
    assert_int_equal(faccessat(root, "other", F_OK, 0), -1);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.file[0].total_bytes, 5000);
    vmdk_list_free(&list);
}

static bool ends_at_second(void *context)
{
    unsigned int *calls = context;

    return ++*calls == 2;
}

static void it_ends_when_it_is_to(void **state)
{
    struct vmdk_list list = {.count = 0};
    unsigned int calls = 0;
    char name[32];

    (void)state;
    for (unsigned int i = 0; i < 3 * VMDK_LIST_CHECK_INTERVAL; i++) {
        snprintf(name, sizeof(name), "%u.vmdk", i);
        write_file(name, "", 0);
    }
    assert_int_equal(vmdk_list(root, "", 500, ends_at_second, &calls, &list), ECANCELED);
    assert_int_equal(calls, 2);
    assert_true(list.count > VMDK_LIST_CHECK_INTERVAL && list.count < 2 * VMDK_LIST_CHECK_INTERVAL);
    vmdk_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_with_data_are_found_in_pages, begin, end),
        cmocka_unit_test_setup_teardown(sizes_are_reported, begin, end),
        cmocka_unit_test_setup_teardown(nothing_outside_is_seen, begin, end),
        cmocka_unit_test_setup_teardown(what_is_left_out_is_said, begin, end),
        cmocka_unit_test_setup_teardown(files_outside_a_broken_folder_are_found, begin, end),
        cmocka_unit_test_setup_teardown(the_checked_file_is_the_one_that_is_read, begin, end),
        cmocka_unit_test_setup_teardown(it_ends_when_it_is_to, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
