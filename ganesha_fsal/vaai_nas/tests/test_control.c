/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Responses of the control socket, with a folder as NFS server, and clones that wait for the test. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
#include <json-c/json.h>

#include "../../fileops/clone.h"
#include "../../fileops/dataset.h"
#include "../control.h"
#include "../file_calls.h"
#include "../service.h"
#include "../vmdk_list.h"

#define ID "00112233445566778899aabbccddeeff"

static char place[256];
static bool gate_open;
static unsigned int clones_begun;
static uid_t owner;
static bool ending;                     /* of the export */
static bool hangs;                      /* every lookup in export 2 */
static struct fileops_dataset *dataset; /* of export 1 */
static unsigned int hanging;            /* number of calls that hang */

int __wrap_fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result);
int __wrap_fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result)
{
    memset(result, 0, sizeof(*result));
    __atomic_add_fetch(&clones_begun, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&owner, request->owner, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&gate_open, __ATOMIC_SEQ_CST)) {
        if (!request->progress(request->progress_context, 7, 100))
            return ECANCELED;
        usleep(1000);
    }
    *result = (struct fileops_clone_result){
        .done = 100, .cloned = 60, .copied = 30, .holes = 10, .fallback = {[FILEOPS_FALLBACK_MISALIGNED] = 30}};
    return 0;
}

/* A handle is an 'h' and the path; the only export is number 1. */
static enum vaai_nas_status fake_find(uint16_t export_id, const char *path, struct vaai_nas_handle *handle)
{
    char whole[512];
    struct stat attributes;

    if (export_id == 2 && __atomic_load_n(&hangs, __ATOMIC_SEQ_CST)) {
        __atomic_add_fetch(&hanging, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&hangs, __ATOMIC_SEQ_CST))
            usleep(1000);
        __atomic_sub_fetch(&hanging, 1, __ATOMIC_SEQ_CST);
    }
    if (export_id != 1)
        return VAAI_NAS_STALE;
    snprintf(whole, sizeof(whole), "%s/%s", place, path);
    if (lstat(whole, &attributes) != 0)
        return vaai_nas_status_of_errno(errno);
    handle->length = strlen(path) + 2;
    handle->bytes[0] = 'h';
    memcpy(handle->bytes + 1, path, strlen(path) + 1);
    return VAAI_NAS_OK;
}

static enum vaai_nas_status fake_open(const struct vaai_nas_caller *caller, const struct vaai_nas_handle *handle,
                                      enum vaai_nas_access access, struct vaai_nas_file *file)
{
    char whole[512];
    struct stat attributes;

    assert_true(caller->local);
    snprintf(whole, sizeof(whole), "%s/%s", place, (const char *)handle->bytes + 1);
    file->fd = open(whole, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &attributes) != 0)
        return VAAI_NAS_STALE;
    file->is_directory = S_ISDIR(attributes.st_mode);
    if (file->is_directory != (access == VAAI_NAS_CREATE) && access != VAAI_NAS_INSPECT) {
        close(file->fd);
        file->fd = -1;
        return file->is_directory ? VAAI_NAS_IS_DIRECTORY : VAAI_NAS_NOT_DIRECTORY;
    }
    file->device = attributes.st_dev;
    file->inode = attributes.st_ino;
    file->export_id = 1;
    file->dataset = dataset;
    strcpy(file->export_path, "/export");
    return VAAI_NAS_OK;
}

static void fake_changed(const struct vaai_nas_file *file)
{
    (void)file;
}

static void fake_close(struct vaai_nas_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static bool fake_is_ending(const struct vaai_nas_file *file)
{
    (void)file;
    return ending;
}

static const struct vaai_nas_adapter adapter = {
    .open = fake_open, .changed = fake_changed, .close = fake_close, .is_ending = fake_is_ending, .find = fake_find};

static void write_file(const char *name, off_t size)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", place, name);
    const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(file >= 0 && ftruncate(file, size) == 0);
    close(file);
}

static int begin(void **state)
{
    const struct vaai_nas_service_options options = {.adapter = &adapter, .workers = 1, .cancel_milliseconds = 5000};
    const char *temporary = getenv("TMPDIR");
    char path[300];

    snprintf(place, sizeof(place), "%s/control-XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(place) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%s/vm", place);
    mkdir(path, 0700);
    write_file("vm/disk-flat.vmdk", 100);
    write_file("other.vmdk", 100);
    gate_open = true;
    ending = hangs = false;
    clones_begun = 0;
    *state = vaai_nas_service_new(&options);
    return *state == NULL || fileops_dataset_open(place, &dataset) != 0;
}

static int end(void **state)
{
    char command[300];

    gate_open = true;
    vaai_nas_service_free(*state);
    fileops_dataset_put(dataset);
    snprintf(command, sizeof(command), "rm -rf '%s'", place);
    return system(command);
}

/* The response's text, which the caller frees. */
static char *call(void *service, const char *text)
{
    struct json_object *response = vaai_nas_control_answer(service, text, strlen(text));
    char *answer = strdup(json_object_to_json_string_ext(response, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));

    json_object_put(response);
    assert_non_null(answer);
    return answer;
}

static void expect(void *service, const char *method, const char *parameters, const char *part)
{
    char request[2048];

    snprintf(request, sizeof(request), "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"%s\",\"params\":%s}", method, parameters);
    char *answer = call(service, request);
    if (strstr(answer, part) == NULL || strstr(answer, "\"id\":5") == NULL)
        fail_msg("%s\nis answered with %s\nwithout %s", request, answer, part);
    free(answer);
}

static void wait_until(void *service, const char *method, const char *about, const char *part)
{
    char request[256];
    bool present = false;

    snprintf(request, sizeof(request), "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":%s}", method, about);
    while (!present) {
        char *answer = call(service, request);
        present = strstr(answer, part) != NULL;
        free(answer);
        usleep(1000);
    }
}

static uint64_t job_of(void *service, const char *parameters)
{
    char request[2048];

    snprintf(request, sizeof(request), "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"clone.start\",\"params\":%s}", parameters);
    struct json_object *response = vaai_nas_control_answer(service, request, strlen(request)), *result, *job;
    assert_true(json_object_object_get_ex(response, "result", &result) && json_object_object_get_ex(result, "job", &job));
    const uint64_t id = json_object_get_uint64(job);
    json_object_put(response);
    return id;
}

static void files_are_listed_in_pages(void **state)
{
    expect(*state, "files.list", "{\"export\":1,\"limit\":1}", "\"path\":\"other.vmdk\",\"total_bytes\":100,");
    expect(*state, "files.list", "{\"export\":1,\"limit\":1}", "\"more\":true,\"complete\":true");
    expect(*state, "files.list", "{\"export\":1,\"after\":\"other.vmdk\"}", "\"path\":\"vm/disk-flat.vmdk\"");
    expect(*state, "files.list", "{\"export\":1,\"after\":\"other.vmdk\"}", "\"more\":false");
    expect(*state, "files.list", "{\"export\":2}", "\"status\":\"stale\",\"field\":\"export\"");
    expect(*state, "file.statistics", "{\"export\":1,\"path\":\"vm/disk-flat.vmdk\"}", "\"total_bytes\":100,");
    expect(*state, "file.statistics", "{\"export\":1,\"path\":\"vm\"}", "\"status\":\"is_directory\",\"field\":\"path\"");
}

static void a_thick_dataset_reports_its_size_and_what_is_admitted(void **state)
{
    char shown[512] = "";

    expect(*state, "space.get", "{\"export\":1}",
           "\"thick\":false,\"size_bytes\":0,\"admitted_bytes\":0,\"counting\":false,\"problem\":\"\"");
    expect(*state, "space.get", "{\"export\":2}", "\"status\":\"stale\",\"field\":\"export\"");
    expect(*state, "space.get", "{\"export\":1,\"refresh\":true}", "\"status\":\"invalid\"");
    assert_int_equal(fileops_dataset_set_thick(dataset, 1 << 30), 0);
    struct fileops_dataset_status status;
    do
        fileops_dataset_status(dataset, &status);
    while (status.counting);
    snprintf(shown, sizeof(shown), "\"thick\":true,\"size_bytes\":1073741824,\"admitted_bytes\":%llu,\"counting\":false",
             (unsigned long long)status.admitted);
    assert_true(status.admitted > 100);
    expect(*state, "space.get", "{\"export\":1}", shown);
    assert_int_equal(fileops_dataset_set_thick(dataset, 0), 0);
    expect(*state, "space.get", "{\"export\":1}", "\"thick\":false");
}

static void why_hosts_get_no_vaai_is_reported(void **state)
{
    expect(*state, "service.get", "{}", "\"problem\":\"\"");
    vaai_nas_service_set_problem(*state, "install the package");
    expect(*state, "service.get", "{}", "\"problem\":\"install the package\"");
    expect(*state, "service.get", "{\"export\":1}", "\"status\":\"invalid\"");
}

/* A unit test has no kernel module. */
static void shared_bytes_come_from_the_module(void **state)
{
    expect(*state, "space.shared", "{\"export\":1}", "\"status\":\"invalid\",\"field\":\"restart\"");
    expect(*state, "space.shared", "{\"export\":1,\"restart\":1}", "\"status\":\"invalid\",\"field\":\"restart\"");
    expect(*state, "space.shared", "{\"export\":2,\"restart\":true}", "\"status\":\"stale\"");
    expect(*state, "space.shared", "{\"export\":1,\"restart\":true}", "\"complete\":false");
    wait_until(*state, "space.shared", "{\"export\":1,\"restart\":false}", "systemctl restart zvol_clone");
}

static void a_clone_is_one_job(void **state)
{
    static const char request[] =
        "{\"export\":1,\"source\":\"vm/disk-flat.vmdk\",\"destination\":\"vm/new.vmdk\",\"request_id\":\"" ID "\"}";
    static const char *const others[] = {
        "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"vm/new.vmdk\",\"request_id\":\"" ID "\"}",
        "{\"export\":1,\"source\":\"vm/disk-flat.vmdk\",\"destination\":\"a.vmdk\",\"request_id\":\"" ID "\"}",
        "{\"export\":2,\"source\":\"vm/disk-flat.vmdk\",\"destination\":\"vm/new.vmdk\",\"request_id\":\"" ID "\"}",
        "{\"export\":1,\"source\":\"vm/disk-flat.vmdk\",\"destination\":\"vm/new.vmdk\",\"request_id\":\"" ID "\",\"fast\":true}",
    };
    char about[64];

    __atomic_store_n(&gate_open, false, __ATOMIC_SEQ_CST);
    const uint64_t id = job_of(*state, request);
    assert_int_equal(job_of(*state, request), id);
    snprintf(about, sizeof(about), "{\"export\":1,\"job\":%llu}", (unsigned long long)id);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        expect(*state, "clone.start", others[i], "\"status\":\"exists\",\"field\":\"request_id\"");
    __atomic_store_n(&gate_open, true, __ATOMIC_SEQ_CST);
    wait_until(*state, "job.get", about, "\"state\":\"complete\"");
    expect(*state, "job.get", "{\"export\":1,\"job\":77}", "\"status\":\"interrupted\",\"field\":\"job\"");
    assert_int_equal(clones_begun, 1);
}

static void remove_file(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", place, name);
    assert_int_equal(remove(path), 0);
}

static void make_folder(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", place, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void a_repeated_request_needs_no_files(void **state)
{
    static const char request[] =
        "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"made/new.vmdk\",\"request_id\":\"" ID "\"}";

    make_folder("made");
    const uint64_t id = job_of(*state, request);
    remove_file("other.vmdk");
    assert_int_equal(job_of(*state, request), id);
    write_file("other.vmdk", 50); /* another file */
    assert_int_equal(job_of(*state, request), id);
    remove_file("made");
    assert_int_equal(job_of(*state, request), id);
    expect(
        *state, "clone.start",
        "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"made/new.vmdk\",\"request_id\":\"ffffffffffffffffffffffffffffffff\"}",
        "\"status\":\"not_found\",\"field\":\"destination\"");
}

static void a_job_is_ended_whatever_became_of_its_folder(void **state)
{
    char about[64], path[512];

    if (geteuid() != 0)
        skip(); /* owner of the source */
    make_folder("made");
    snprintf(path, sizeof(path), "%s/other.vmdk", place);
    assert_int_equal(chown(path, 1234, 1234), 0);
    __atomic_store_n(&gate_open, false, __ATOMIC_SEQ_CST);
    const uint64_t id =
        job_of(*state, "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"made/a.vmdk\",\"request_id\":\"" ID "\"}");
    remove_file("made");
    snprintf(about, sizeof(about), "{\"export\":2,\"job\":%llu}", (unsigned long long)id);
    expect(*state, "job.get", about, "\"status\":\"not_found\",\"field\":\"job\"");
    expect(*state, "job.cancel", about, "\"status\":\"not_found\",\"field\":\"job\"");
    snprintf(about, sizeof(about), "{\"export\":1,\"job\":%llu}", (unsigned long long)id);
    expect(*state, "job.get", about, "\"status\":\"ok\"");
    expect(*state, "job.cancel", about, "\"state\":\"failed\",\"status\":\"cancelled\"");
}

static void *list_export_2(void *service)
{
    expect(service, "files.list", "{\"export\":2}", "\"status\":\"stale\"");
    return NULL;
}

static void wait_for_hanging(unsigned int number)
{
    while (__atomic_load_n(&hanging, __ATOMIC_SEQ_CST) != number)
        usleep(1000);
}

static void what_hangs_keeps_others_from_nothing(void **state)
{
    pthread_t threads[FILE_CALLS_EXPORT_MAX];
    char about[64];

    const uint64_t id =
        job_of(*state, "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"a.vmdk\",\"request_id\":\"" ID "\"}");
    hangs = true;
    for (size_t i = 0; i < FILE_CALLS_EXPORT_MAX; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, list_export_2, *state), 0);
    wait_for_hanging(FILE_CALLS_EXPORT_MAX);
    expect(*state, "files.list", "{\"export\":2}", "\"status\":\"busy\"");
    expect(*state, "files.list", "{\"export\":2}", "its pool may hang. Try again later");
    expect(*state, "file.statistics", "{\"export\":2,\"path\":\"a\"}", "\"status\":\"busy\"");
    expect(*state, "clone.start",
           "{\"export\":2,\"source\":\"a\",\"destination\":\"b\",\"request_id\":\"ffffffffffffffffffffffffffffffff\"}",
           "\"status\":\"busy\",\"field\":null");
    expect(*state, "files.list", "{\"export\":1}", "\"complete\":true");
    snprintf(about, sizeof(about), "{\"export\":1,\"job\":%llu}", (unsigned long long)id);
    wait_until(*state, "job.get", about, "\"state\":\"complete\"");
    expect(*state, "job.get", "{\"export\":2,\"job\":77}", "\"status\":\"interrupted\"");
    expect(*state, "statistics.get", "{}", "\"hosts\":[");
    __atomic_store_n(&hangs, false, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < FILE_CALLS_EXPORT_MAX; i++)
        pthread_join(threads[i], NULL);
    expect(*state, "files.list", "{\"export\":2}", "\"status\":\"stale\"");
}

static void *let_go(void *unused)
{
    (void)unused;
    __atomic_store_n(&hangs, false, __ATOMIC_SEQ_CST);
    return NULL;
}

static void an_export_that_ends_waits_for_its_calls(void **state)
{
    pthread_t caller, opener;

    hangs = true;
    assert_int_equal(pthread_create(&caller, NULL, list_export_2, *state), 0);
    wait_for_hanging(1);
    assert_true(vaai_nas_cancel_export(*state, 1, 60000));
    assert_false(vaai_nas_cancel_export(*state, 2, 10));
    assert_int_equal(pthread_create(&opener, NULL, let_go, NULL), 0);
    assert_true(vaai_nas_cancel_export(*state, 2, 60000));
    assert_int_equal(__atomic_load_n(&hanging, __ATOMIC_SEQ_CST), 0);
    pthread_join(caller, NULL);
    pthread_join(opener, NULL);
}

static void a_listing_ends_with_its_export(void **state)
{
    char name[32];

    for (unsigned int i = 0; i < VMDK_LIST_CHECK_INTERVAL; i++) {
        snprintf(name, sizeof(name), "vm/%u", i);
        write_file(name, 0);
    }
    expect(*state, "files.list", "{\"export\":1}", "\"complete\":true");
    ending = true;
    expect(*state, "files.list", "{\"export\":1}", "\"status\":\"stale\",\"field\":\"export\"");
}

static void cloned_and_copied_bytes_are_reported(void **state)
{
    char about[64];
    const uint64_t id =
        job_of(*state, "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"a.vmdk\",\"request_id\":\"" ID "\"}");

    snprintf(about, sizeof(about), "{\"export\":1,\"job\":%llu}", (unsigned long long)id);
    wait_until(*state, "job.get", about, "\"state\":\"complete\"");
    expect(*state, "job.get", about, "\"cloned_bytes\":60,\"copied_bytes\":30,\"hole_bytes\":10");
    expect(*state, "job.get", about, "\"misaligned\":30");
    assert_int_equal(owner, getuid()); /* of the source, not of the caller */
}

static void a_clone_is_cancelled(void **state)
{
    char about[64];

    __atomic_store_n(&gate_open, false, __ATOMIC_SEQ_CST);
    const uint64_t id =
        job_of(*state, "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"a.vmdk\",\"request_id\":\"" ID "\"}");
    snprintf(about, sizeof(about), "{\"export\":1,\"job\":%llu}", (unsigned long long)id);
    expect(*state, "job.cancel", about, "\"state\":\"failed\",\"status\":\"cancelled\"");
    expect(*state, "job.cancel", about, "\"state\":\"failed\",\"status\":\"cancelled\"");
}

static void wrong_paths_name_their_field(void **state)
{
    static const char *const wrong[] = {
        "/other.vmdk", "../other.vmdk", "vm/../other.vmdk", "vm//disk-flat.vmdk", "vm/./disk-flat.vmdk", "vm/", "", "."};
    char parameters[2048];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(parameters, sizeof(parameters),
                 "{\"export\":1,\"source\":\"%s\",\"destination\":\"b.vmdk\",\"request_id\":\"" ID "\"}", wrong[i]);
        expect(*state, "clone.start", parameters, "\"status\":\"invalid\",\"field\":\"source\"");
        snprintf(parameters, sizeof(parameters),
                 "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"%s\",\"request_id\":\"" ID "\"}", wrong[i]);
        expect(*state, "clone.start", parameters, "\"status\":\"invalid\",\"field\":\"destination\"");
    }
    snprintf(parameters, sizeof(parameters), "{\"export\":1,\"path\":\"%01100d\"}", 0);
    expect(*state, "file.statistics", parameters, "\"status\":\"invalid\",\"field\":\"path\"");
    expect(*state, "clone.start", "{\"export\":1,\"source\":\"gone.vmdk\",\"destination\":\"b.vmdk\",\"request_id\":\"" ID "\"}",
           "\"status\":\"not_found\",\"field\":\"source\"");
    expect(*state, "clone.start", "{\"export\":1,\"source\":\"vm\",\"destination\":\"b.vmdk\",\"request_id\":\"" ID "\"}",
           "\"status\":\"is_directory\",\"field\":\"source\"");
    expect(*state, "clone.start",
           "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"vm/disk-flat.vmdk\",\"request_id\":\"" ID "\"}",
           "\"status\":\"exists\",\"field\":\"destination\"");
    expect(*state, "clone.start",
           "{\"export\":1,\"source\":\"other.vmdk\",\"destination\":\"gone/b.vmdk\",\"request_id\":\"" ID "\"}",
           "\"status\":\"not_found\",\"field\":\"destination\"");
    assert_int_equal(clones_begun, 0);
}

static void what_is_no_request_is_refused(void **state)
{
    static const struct {
        const char *method, *parameters, *part;
    } wrong[] = {
        {"statistics.get", "{\"x\":1}", "-32602"},
        {"statistics.get", "[]", "-32602"},
        {"files.list", "{}", "\"field\":\"export\""},
        {"files.list", "{\"export\":\"1\"}", "\"field\":\"export\""},
        {"files.list", "{\"export\":65536}", "\"field\":\"export\""},
        {"files.list", "{\"export\":-1}", "\"field\":\"export\""},
        {"files.list", "{\"export\":1.5}", "\"field\":\"export\""},
        {"files.list", "{\"export\":1,\"limit\":0}", "\"field\":\"limit\""},
        {"files.list", "{\"export\":1,\"limit\":501}", "\"field\":\"limit\""},
        {"files.list", "{\"export\":1,\"after\":\"a\\u0000b\"}", "\"field\":\"after\""},
        {"files.list", "{\"export\":1,\"path\":\"a\"}", "-32602"},
        {"job.get", "{\"export\":1,\"job\":0}", "\"field\":\"job\""},
        {"job.get", "{\"export\":1,\"job\":18446744073709551615}", "\"field\":\"job\""},
        {"clone.start", "{\"export\":1,\"source\":\"a\",\"destination\":\"b\"}", "\"field\":\"request_id\""},
        {"clone.start", "{\"export\":1,\"source\":\"a\",\"destination\":\"b\",\"request_id\":\"00\"}",
         "\"field\":\"request_id\""},
        {"clone.start",
         "{\"export\":1,\"source\":\"a\",\"destination\":\"b\",\"request_id\":\"00000000000000000000000000000000\"}",
         "\"field\":\"request_id\""},
        {"clone.start", "{\"export\":1,\"source\":\"a\",\"destination\":\"b\",\"request_id\":\"" ID "\",\"fast\":1}",
         "\"field\":\"fast\""},
        {"files.remove", "{}", "-32601"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        expect(*state, wrong[i].method, wrong[i].parameters, wrong[i].part);
    char *answer = call(*state, "{\"id\":1,\"method\":");
    assert_non_null(strstr(answer, "-32700"));
    free(answer);
    answer = call(*state, "{\"jsonrpc\":\"2.0\",\"method\":\"statistics.get\"} x");
    assert_non_null(strstr(answer, "-32700"));
    free(answer);
    answer = call(*state, " {\"jsonrpc\":\"2.0\",\"method\":\"statistics.get\"} \r");
    assert_non_null(strstr(answer, "\"exports\":["));
    free(answer);
    answer = call(*state, "[1]");
    assert_non_null(strstr(answer, "-32600"));
    free(answer);
    answer = call(*state, "{\"jsonrpc\":\"2.0\",\"method\":\"statistics.get\"}");
    assert_non_null(strstr(answer, "\"exports\":["));
    free(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_listed_in_pages, begin, end),
        cmocka_unit_test_setup_teardown(a_thick_dataset_reports_its_size_and_what_is_admitted, begin, end),
        cmocka_unit_test_setup_teardown(why_hosts_get_no_vaai_is_reported, begin, end),
        cmocka_unit_test_setup_teardown(shared_bytes_come_from_the_module, begin, end),
        cmocka_unit_test_setup_teardown(a_clone_is_one_job, begin, end),
        cmocka_unit_test_setup_teardown(a_repeated_request_needs_no_files, begin, end),
        cmocka_unit_test_setup_teardown(a_job_is_ended_whatever_became_of_its_folder, begin, end),
        cmocka_unit_test_setup_teardown(what_hangs_keeps_others_from_nothing, begin, end),
        cmocka_unit_test_setup_teardown(an_export_that_ends_waits_for_its_calls, begin, end),
        cmocka_unit_test_setup_teardown(a_listing_ends_with_its_export, begin, end),
        cmocka_unit_test_setup_teardown(cloned_and_copied_bytes_are_reported, begin, end),
        cmocka_unit_test_setup_teardown(a_clone_is_cancelled, begin, end),
        cmocka_unit_test_setup_teardown(wrong_paths_name_their_field, begin, end),
        cmocka_unit_test_setup_teardown(what_is_no_request_is_refused, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
