/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The service with a fake adapter, and a fileops_clone() that the tests control. */
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

#include "../../fileops/clone.h"
#include "../files.h"
#include "../procedure22.h"
#include "../service.h"

/* State of the fake clones. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_open, fast_pass, deaf; /* fast clones need no gate; clones do not check whether they are cancelled */
static unsigned int clones_begun, changes, open_files;
static int clone_error;
static struct fileops_clone_result clone_failed; /* result of a failed clone */
static uint16_t ending_export;
static uint8_t denied; /* a file that allows only reading of attributes */

static void set_gate(bool open)
{
    pthread_mutex_lock(&gate_lock);
    gate_open = open;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_lock);
}

static void wait_until_begun(unsigned int number)
{
    pthread_mutex_lock(&gate_lock);
    while (clones_begun < number)
        pthread_cond_wait(&gate_moved, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
}

int __wrap_fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result);
int __wrap_fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result)
{
    int error = 0;

    memset(result, 0, sizeof(*result));
    pthread_mutex_lock(&gate_lock);
    clones_begun++;
    pthread_cond_broadcast(&gate_moved);
    while (!gate_open && error == 0 && !(fast_pass && request->mode == FILEOPS_CLONE_FAST)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&gate_moved, &gate_lock, &until);
        pthread_mutex_unlock(&gate_lock);
        if (!request->progress(request->progress_context, 1, 100) && !deaf)
            error = ECANCELED;
        pthread_mutex_lock(&gate_lock);
    }
    pthread_mutex_unlock(&gate_lock);
    if (error == 0)
        error = clone_error;
    *result = clone_failed;
    if (error == 0)
        *result = (struct fileops_clone_result){
            .done = 100, .cloned = 60, .copied = 40, .fallback = {[FILEOPS_FALLBACK_MISALIGNED] = 40}};
    return error;
}

/* Handles are one byte: files 1 to 99 in one export and pool, 100 to 199 in others, 200 is a directory, 255 is stale. */
static enum vaai_nas_status fake_open(const struct vaai_nas_caller *caller, const struct vaai_nas_handle *handle,
                                      enum vaai_nas_access access, struct vaai_nas_file *file)
{
    uint8_t number = handle->bytes[0];

    (void)caller;
    if (handle->length != 1)
        return VAAI_NAS_BAD_HANDLE;
    if (number == 255)
        return VAAI_NAS_STALE;
    if (number == denied && access != VAAI_NAS_INSPECT)
        return VAAI_NAS_ACCESS;
    file->is_directory = number == 200;
    if (file->is_directory && (access == VAAI_NAS_READ || access == VAAI_NAS_WRITE || access == VAAI_NAS_MAY_WRITE))
        return VAAI_NAS_IS_DIRECTORY;
    file->fd = open(file->is_directory ? "/" : "/dev/null", O_RDONLY | O_CLOEXEC);
    file->device = 1;
    file->inode = number;
    file->export_id = number >= 100 && number < 200 ? 2 : 1;
    snprintf(file->pool, sizeof(file->pool), "pool%u", file->export_id);
    strcpy(file->export_directory, "/");
    snprintf(file->export_path, sizeof(file->export_path), "/export%u", file->export_id);
    __atomic_add_fetch(&open_files, 1, __ATOMIC_RELAXED);
    return VAAI_NAS_OK;
}

static void fake_changed(const struct vaai_nas_file *file)
{
    (void)file;
    __atomic_add_fetch(&changes, 1, __ATOMIC_RELAXED);
}

static void fake_close(struct vaai_nas_file *file)
{
    if (file->fd < 0)
        return;
    close(file->fd);
    file->fd = -1;
    __atomic_sub_fetch(&open_files, 1, __ATOMIC_RELAXED);
}

/* Callers differ only by host: all have user 0. */
static bool fake_is_ending(const struct vaai_nas_file *file)
{
    return file->export_id == ending_export;
}

static const struct vaai_nas_adapter adapter = {
    .open = fake_open, .changed = fake_changed, .close = fake_close, .is_ending = fake_is_ending};
static const struct vaai_nas_caller caller = {.host = "192.0.2.7"};

static struct vaai_nas_clone a_clone(uint8_t source, uint8_t destination, uint8_t request_id)
{
    struct vaai_nas_clone clone = {.source = {1, {source}}, .destination = {1, {destination}}};

    clone.request_id[0] = request_id;
    return clone;
}

static int begin(void **state)
{
    const struct vaai_nas_service_options options = {.adapter = &adapter}; /* with the daemon's timeouts */

    set_gate(true);
    fast_pass = deaf = false;
    denied = 0;
    clones_begun = changes = 0;
    clone_error = 0;
    clone_failed = (struct fileops_clone_result){0};
    ending_export = 0;
    *state = vaai_nas_service_new(&options);
    return *state == NULL;
}

/* For waits that the test lets expire. */
static struct vaai_nas_service *hasty_service(void)
{
    const struct vaai_nas_service_options options = {.adapter = &adapter, .do_milliseconds = 100, .cancel_milliseconds = 100};

    return vaai_nas_service_new(&options);
}

static int end(void **state)
{
    set_gate(true);
    vaai_nas_service_free(*state);
    return open_files != 0; /* all files are closed */
}

static void a_clone_runs_and_its_ways_are_shown(void **state)
{
    const struct vaai_nas_clone clone = a_clone(1, 2, 0);
    struct vaai_nas_job job;

    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 10000, &job, NULL), VAAI_NAS_OK);
    assert_int_equal(job.state, VAAI_NAS_COMPLETE);
    assert_int_equal(job.cloned_bytes, 60);
    assert_string_equal(job.reason, "copied: misaligned");
    assert_string_equal(job.host, "192.0.2.7");
    assert_true(changes > 0);
    assert_int_equal(vaai_nas_get_job_of_file(*state, &caller, &clone.destination, &job), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_get_job_of_file(*state, &caller, &clone.source, &job), VAAI_NAS_NOT_FOUND);
}

static void wait_for_end(void *service, uint8_t destination, struct vaai_nas_job *job)
{
    const struct vaai_nas_handle handle = {1, {destination}};

    do {
        usleep(1000);
        assert_int_equal(vaai_nas_get_job_of_file(service, &caller, &handle, job), VAAI_NAS_OK);
    } while (job->state == VAAI_NAS_WAITING || job->state == VAAI_NAS_RUNNING);
}

static void one_request_is_one_job(void **state)
{
    struct vaai_nas_clone clone = a_clone(1, 2, 7);
    struct vaai_nas_job first, again;

    set_gate(false);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &first, NULL), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &again, NULL), VAAI_NAS_OK);
    assert_int_equal(first.id, again.id);
    clone.source.bytes[0] = 3;
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &again, NULL), VAAI_NAS_EXISTS);
    set_gate(true);
    wait_for_end(*state, 2, &again);
    assert_int_equal(again.state, VAAI_NAS_COMPLETE);
    clone.source.bytes[0] = 1;
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &again, NULL), VAAI_NAS_OK);
    assert_int_equal(again.id, first.id);
    assert_int_equal(clones_begun, 1);
}

static void a_destination_has_one_writer(void **state)
{
    const struct vaai_nas_clone clone = a_clone(1, 2, 0), another = a_clone(3, 2, 0);
    char reason[VAAI_NAS_REASON_SIZE];
    struct vaai_nas_job first, again;

    set_gate(false);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &first, NULL), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &another, 0, &again, reason), VAAI_NAS_BUSY);
    assert_non_null(strstr(reason, "nothing was changed"));
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &again, NULL), VAAI_NAS_OK); /* repeated without an id */
    assert_int_equal(first.id, again.id);
}

static void cancelling_ends_what_runs_and_what_waits(void **state)
{
    struct vaai_nas_job ended;

    set_gate(false);
    for (uint8_t i = 0; i < 4; i++) { /* one host runs two: the others wait */
        const struct vaai_nas_clone clone = a_clone(1, (uint8_t)(10 + i), 0);
        assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &ended, NULL), VAAI_NAS_OK);
    }
    wait_until_begun(2);
    for (int i = 3; i >= 0; i--) {
        const struct vaai_nas_handle destination = {1, {(uint8_t)(10 + i)}};
        assert_int_equal(vaai_nas_cancel_job_of_file(*state, &caller, &destination, &ended), VAAI_NAS_OK);
        assert_int_equal(ended.state, VAAI_NAS_FAILED);
        assert_int_equal(ended.status, VAAI_NAS_CANCELLED);
        assert_non_null(strstr(ended.reason, "the destination was not changed"));
    }
    assert_int_equal(clones_begun, 2);
}

static void a_host_gets_half_of_the_threads(void **state)
{
    struct vaai_nas_caller another = caller;
    struct vaai_nas_job job;

    strcpy(another.host, "192.0.2.8");
    set_gate(false);
    for (uint8_t i = 0; i < 20; i++) {
        const struct vaai_nas_clone clone = a_clone(1, (uint8_t)(10 + i), 0);
        assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &job, NULL), VAAI_NAS_OK);
    }
    wait_until_begun(2);
    for (uint8_t i = 0; i < 2; i++) {
        const struct vaai_nas_clone clone = a_clone(1, (uint8_t)(50 + i), 0);
        assert_int_equal(vaai_nas_start_clone(*state, &another, &clone, 0, &job, NULL), VAAI_NAS_OK);
    }
    wait_until_begun(4);
    const struct vaai_nas_handle handle = {1, {51}};
    assert_int_equal(vaai_nas_get_job_of_file(*state, &another, &handle, &job), VAAI_NAS_OK);
    assert_int_equal(job.state, VAAI_NAS_RUNNING);
}

static void a_pool_that_hangs_stops_no_other(void **state)
{
    struct vaai_nas_caller many = caller;
    struct vaai_nas_job job;

    set_gate(false);
    deaf = true;
    for (uint8_t i = 0; i < 80; i++) { /* of one pool; 8 run */
        const struct vaai_nas_clone clone = {.source = {1, {1}}, .destination = {1, {(uint8_t)(10 + i)}}, .fast = i % 2 == 0};
        snprintf(many.host, sizeof(many.host), "host%u", i);
        assert_int_equal(vaai_nas_start_clone(*state, &many, &clone, 0, &job, NULL), VAAI_NAS_OK);
    }
    wait_until_begun(8);
    const struct vaai_nas_clone other = a_clone(100, 101, 0), across = a_clone(100, 5, 0);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &other, 0, &job, NULL), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &across, 0, &job, NULL), VAAI_NAS_OK);
    wait_until_begun(10);
}

static void a_running_clone_is_cancelled(void **state)
{
    const struct vaai_nas_clone clone = a_clone(1, 2, 0);
    struct vaai_nas_job job;

    set_gate(false);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &job, NULL), VAAI_NAS_OK);
    wait_until_begun(1);
    assert_int_equal(vaai_nas_cancel_job_of_file(*state, &caller, &clone.destination, &job), VAAI_NAS_OK);
    assert_int_equal(job.state, VAAI_NAS_FAILED);
    assert_int_equal(job.status, VAAI_NAS_CANCELLED);
    assert_non_null(strstr(job.reason, "the destination was not changed"));
}

static void an_export_that_ends_has_no_jobs(void **state)
{
    const struct vaai_nas_clone reads = a_clone(100, 2, 0), other = a_clone(1, 3, 0);
    struct vaai_nas_job job;

    set_gate(false);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &reads, 0, &job, NULL), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &other, 0, &job, NULL), VAAI_NAS_OK);
    wait_until_begun(2);
    assert_true(vaai_nas_cancel_export(*state, 2, 60000));
    assert_int_equal(vaai_nas_get_job_of_file(*state, &caller, &reads.destination, &job), VAAI_NAS_OK);
    assert_int_equal(job.status, VAAI_NAS_CANCELLED);
    assert_int_equal(vaai_nas_get_job_of_file(*state, &caller, &other.destination, &job), VAAI_NAS_OK);
    assert_int_equal(job.state, VAAI_NAS_RUNNING);
}

static void queues_are_bounded(void **state)
{
    unsigned int entered[6] = {0};
    struct vaai_nas_job job;

    set_gate(false);
    for (unsigned int host = 0; host < 6; host++)
        for (unsigned int i = 0; i < VAAI_NAS_HOST_ACTIVE_MAX + 5; i++) {
            struct vaai_nas_clone clone = a_clone(1, 200, 0);
            struct vaai_nas_caller from = caller;
            snprintf(clone.name, sizeof(clone.name), "clone%u-%u", host, i);
            snprintf(from.host, sizeof(from.host), "host%u", host);
            entered[host] += vaai_nas_start_clone(*state, &from, &clone, 0, &job, NULL) == VAAI_NAS_OK;
        }
    for (unsigned int host = 0; host < 6; host++)
        assert_int_equal(entered[host],
                         host < VAAI_NAS_LANE_ACTIVE_MAX / VAAI_NAS_HOST_ACTIVE_MAX ? VAAI_NAS_HOST_ACTIVE_MAX : 0);
}

static void what_ended_is_forgotten_oldest_first(void **state)
{
    const struct vaai_nas_clone longest = a_clone(1, 3, 0);
    struct vaai_nas_job running, job;
    uint64_t first = 0;

    set_gate(false);
    fast_pass = true;
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &longest, 0, &running, NULL), VAAI_NAS_OK);
    for (unsigned int i = 0; i < VAAI_NAS_JOBS_KNOWN_MAX + 10; i++) {
        struct vaai_nas_clone clone = a_clone(1, 2, 0);
        clone.fast = true;
        assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 10000, &job, NULL), VAAI_NAS_OK);
        first = i == 0 ? job.id : first;
    }
    assert_int_equal(vaai_nas_get_file_job(*state, 1, job.id, &job), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_get_file_job(*state, 1, first, &job), VAAI_NAS_NOT_FOUND);
    assert_int_equal(vaai_nas_get_file_job(*state, 1, running.id, &job), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_get_file_job(*state, 1, running.id - 1, &job), VAAI_NAS_INTERRUPTED);
}

static void errors_say_what_is_left(void **state)
{
    static const struct {
        int error;
        enum vaai_nas_status status;
        const char *says;
    } cases[] = {
        {ENOSPC, VAAI_NAS_NO_SPACE, "No space left"},        {EXDEV, VAAI_NAS_NOT_SUPPORTED, "other pool"},
        {EOPNOTSUPP, VAAI_NAS_NOT_SUPPORTED, "can't share"}, {EBUSY, VAAI_NAS_BUSY, "the source is being written"},
        {EIO, VAAI_NAS_INPUT_OUTPUT, "Input/output"},
    };
    struct vaai_nas_job job;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct vaai_nas_clone clone = a_clone(1, 2, 0);
        clone_error = cases[i].error;
        clone_failed = (struct fileops_clone_result){.left = FILEOPS_CLONE_UNTOUCHED};
        assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 10000, &job, NULL), VAAI_NAS_OK);
        assert_int_equal(job.state, VAAI_NAS_FAILED);
        assert_int_equal(job.status, cases[i].status);
        assert_non_null(strstr(job.reason, cases[i].says));
        assert_non_null(strstr(job.reason, "the destination was not changed"));
    }
    clone_error = EOPNOTSUPP;
    clone_failed.refused = FILEOPS_FALLBACK_THICK;
    const struct vaai_nas_clone from_thick = a_clone(1, 2, 0);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &from_thick, 10000, &job, NULL), VAAI_NAS_OK);
    assert_non_null(strstr(job.reason, "thick"));
    /* By the clone's setting, whatever the file. */
    static const char *const left[] = {
        [FILEOPS_CLONE_UNTOUCHED] = "the destination was not changed",
        [FILEOPS_CLONE_EMPTY] = "the destination is empty",
    };
    for (enum fileops_clone_left what = FILEOPS_CLONE_UNTOUCHED; what <= FILEOPS_CLONE_EMPTY; what++) {
        const struct vaai_nas_clone clone = a_clone(1, 2, 0);
        clone_failed.left = what;
        assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 10000, &job, NULL), VAAI_NAS_OK);
        assert_non_null(strstr(job.reason, left[what]));
    }
}

static void wrong_requests_are_refused_before_anything_is_done(void **state)
{
    struct vaai_nas_clone clone;
    struct vaai_nas_job job;

    clone = a_clone(1, 1, 0);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &job, NULL), VAAI_NAS_INVALID);
    clone = a_clone(255, 2, 0);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &job, NULL), VAAI_NAS_STALE);
    clone = a_clone(1, 200, 0);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &job, NULL), VAAI_NAS_IS_DIRECTORY);
    strcpy(clone.name, "..");
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &job, NULL), VAAI_NAS_INVALID);
    strcpy(clone.name, "etc"); /* of "/" */
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 0, &job, NULL), VAAI_NAS_EXISTS);
    assert_int_equal(clones_begun, 0);
}

static struct procedure22_result call_procedure22(struct vaai_nas_service *service, enum procedure22_command command,
                                                  uint8_t source, uint8_t destination)
{
    struct procedure22_request request = {.destination = {1, {destination}},
                                          .source = {1, {source}},
                                          .version = 1,
                                          .command = command,
                                          .name_length = 2,
                                          .name = "x"};
    struct procedure22_result result;

    request.kind = command == PROCEDURE22_CLONE_FILE ? PROCEDURE22_NEED_SOURCE : PROCEDURE22_OTHER;
    vaai_nas_procedure22_serve(service, &caller, &request, PROCEDURE22_GOOD, &result);
    return result;
}

static void fast_clones_do_not_wait_behind_copies(void **state)
{
    struct vaai_nas_job job;

    set_gate(false);
    fast_pass = true;
    for (uint8_t i = 0; i < 8; i++) {
        const struct vaai_nas_clone copy = a_clone(1, (uint8_t)(10 + i), 0);
        assert_int_equal(vaai_nas_start_clone(*state, &caller, &copy, 0, &job, NULL), VAAI_NAS_OK);
    }
    wait_until_begun(2);
    struct vaai_nas_clone fast = a_clone(1, 50, 0);
    fast.fast = true;
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &fast, 10000, &job, NULL), VAAI_NAS_OK);
    assert_int_equal(job.state, VAAI_NAS_COMPLETE);
}

static void procedure_22_says_done_only_of_what_is(void **state)
{
    struct vaai_nas_service *hasty = hasty_service();
    struct procedure22_result result;

    fast_pass = true;
    result = call_procedure22(*state, PROCEDURE22_CLONE_FILE, 1, 200);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.clone_flag, PROCEDURE22_COMPLETE);
    fast_pass = false;
    set_gate(false);
    result = call_procedure22(hasty, PROCEDURE22_CLONE_FILE, 1, 200); /* by name */
    assert_int_equal(result.status, 10008);                           /* NFS3ERR_JUKEBOX */
    assert_int_equal(result.result, PROCEDURE22_BUSY);
    vaai_nas_service_free(hasty);
    result = call_procedure22(*state, PROCEDURE22_CLONE_FILE, 1, 3); /* into a file */
    assert_int_equal(result.status, 0);
    assert_int_equal(result.clone_flag, PROCEDURE22_COPYING);
    result = call_procedure22(*state, PROCEDURE22_CLONE_PROGRESS, 0, 3);
    assert_int_equal(result.clone_flag, PROCEDURE22_COPYING);
    clone_error = ENOSPC;
    set_gate(true);
    do
        result = call_procedure22(*state, PROCEDURE22_CLONE_PROGRESS, 0, 3);
    while (result.status == 0);
    assert_int_equal(result.status, 28);
    assert_int_equal(result.result, PROCEDURE22_DISK_FULL);
    /* The response has the reason if the clone is refused within 30 ms. */
    do
        result = call_procedure22(*state, PROCEDURE22_CLONE_FILE, 1, 4);
    while (result.status == 0);
    assert_int_equal(result.status, 28);
}

static unsigned int answered;

struct waiting_caller {
    pthread_t thread;
    struct vaai_nas_service *service;
    unsigned int number, host;
    struct procedure22_result result;
};

static void *call_in_thread(void *argument)
{
    struct waiting_caller *waiting = argument;
    struct procedure22_request request = {
        .destination = {1, {200}}, .source = {1, {1}}, .version = 1, .command = PROCEDURE22_CLONE_FILE};
    struct vaai_nas_caller from = caller;

    request.name_length = 1 + (uint32_t)snprintf(request.name, sizeof(request.name), "made%u", waiting->number);
    snprintf(from.host, sizeof(from.host), "host%u", waiting->host);
    vaai_nas_procedure22_serve(waiting->service, &from, &request, PROCEDURE22_GOOD, &waiting->result);
    pthread_mutex_lock(&gate_lock);
    answered++;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_lock);
    return NULL;
}

/* Of 60 callers so many get a place. */
static void expect_places(unsigned int of_host, unsigned int places)
{
    const struct vaai_nas_service_options options = {.adapter = &adapter};
    struct vaai_nas_service *service = vaai_nas_service_new(&options);
    static struct waiting_caller callers[60];
    unsigned int done = 0, busy = 0;

    set_gate(false);
    answered = clones_begun = 0;
    for (unsigned int i = 0; i < 60; i++) {
        callers[i] = (struct waiting_caller){.service = service, .number = i, .host = i / of_host};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_in_thread, &callers[i]), 0);
    }
    pthread_mutex_lock(&gate_lock);
    while (answered < 60 - places)
        pthread_cond_wait(&gate_moved, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
    set_gate(true);
    for (unsigned int i = 0; i < 60; i++) {
        pthread_join(callers[i].thread, NULL);
        busy += callers[i].result.status == 10008;
        done += callers[i].result.status == 0 && callers[i].result.clone_flag == PROCEDURE22_COMPLETE;
    }
    assert_int_equal(busy, 60 - places);
    assert_int_equal(done, places);
    assert_int_equal(clones_begun, places);
    vaai_nas_service_free(service);
}

static void callers_beyond_the_places_to_wait_begin_nothing(void **state)
{
    (void)state;
    expect_places(1, 48);
    expect_places(30, 2 * 16); /* a host cannot take those of others */
}

static void an_abort_is_done_when_the_clone_has_ended(void **state)
{
    struct vaai_nas_service *hasty = hasty_service();
    struct procedure22_result result;
    struct vaai_nas_job job;

    set_gate(false);
    assert_int_equal(call_procedure22(hasty, PROCEDURE22_CLONE_FILE, 100, 2).status, 0);
    wait_until_begun(1);
    deaf = true;
    result = call_procedure22(hasty, PROCEDURE22_ABORT_CLONE, 0, 2);
    assert_int_equal(result.status, 10008);
    assert_int_equal(result.clone_flag, PROCEDURE22_COPYING);
    deaf = false;
    do
        result = call_procedure22(hasty, PROCEDURE22_ABORT_CLONE, 0, 2);
    while (result.status == 10008);
    assert_int_equal(result.status, 0);
    set_gate(true);
    vaai_nas_service_free(hasty);
    assert_int_equal(call_procedure22(*state, PROCEDURE22_CLONE_FILE, 1, 3).status, 0);
    wait_for_end(*state, 3, &job);
    result = call_procedure22(*state, PROCEDURE22_ABORT_CLONE, 0, 3);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.clone_flag, PROCEDURE22_COMPLETE); /* nothing was undone */
}

static void an_export_that_ends_takes_no_jobs(void **state)
{
    const struct vaai_nas_clone reads = a_clone(100, 2, 0), writes = a_clone(1, 102, 0), other = a_clone(1, 3, 0);
    char reason[VAAI_NAS_REASON_SIZE];
    struct vaai_nas_job job;

    ending_export = 2;
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &reads, 0, &job, reason), VAAI_NAS_STALE);
    assert_non_null(strstr(reason, "being removed"));
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &writes, 0, &job, NULL), VAAI_NAS_STALE);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &other, 10000, &job, NULL), VAAI_NAS_OK);
    assert_int_equal(clones_begun, 1);
}

static void an_export_does_not_wait_for_ever(void **state)
{
    const struct vaai_nas_clone reads = a_clone(100, 2, 0);
    struct vaai_nas_job job;

    set_gate(false);
    deaf = true;
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &reads, 0, &job, NULL), VAAI_NAS_OK);
    wait_until_begun(1);
    assert_false(vaai_nas_cancel_export(*state, 2, 50));
    set_gate(true);
    assert_true(vaai_nas_cancel_export(*state, 2, 60000));
}

static void jobs_are_shown_to_whose_they_are_and_who_may_write_there(void **state)
{
    const struct vaai_nas_clone clone = a_clone(1, 2, 0), open_to_all = a_clone(1, 3, 0);
    struct vaai_nas_caller another = caller;
    struct vaai_nas_job job;

    strcpy(another.host, "192.0.2.8");
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 10000, &job, NULL), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_start_clone(*state, &caller, &open_to_all, 10000, &job, NULL), VAAI_NAS_OK);
    denied = 2;
    assert_int_equal(vaai_nas_get_job_of_file(*state, &another, &clone.destination, &job), VAAI_NAS_NOT_FOUND);
    assert_int_equal(vaai_nas_get_job_of_file(*state, &another, &open_to_all.destination, &job), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_get_job_of_file(*state, &caller, &clone.destination, &job), VAAI_NAS_OK);
    assert_int_equal(vaai_nas_cancel_job_of_file(*state, &caller, &clone.destination, &job), VAAI_NAS_ACCESS);
}

struct counted_host {
    const char *host;
    struct vaai_nas_counter_set set;
    unsigned int rows;
};

static void find_host(void *context, const char *host, const char *export_path, const struct vaai_nas_counter_set *set)
{
    struct counted_host *counted_host = context;

    (void)export_path;
    counted_host->rows += host != NULL;
    if (host != NULL && strcmp(host, counted_host->host) == 0)
        counted_host->set = *set;
}

static void a_host_asks(void *service, const char *name, const struct vaai_nas_clone *clone)
{
    struct vaai_nas_caller host = caller;
    struct vaai_nas_job job;

    snprintf(host.host, sizeof(host.host), "%s", name);
    assert_int_equal(vaai_nas_get_job_of_file(service, &host, &clone->destination, &job), VAAI_NAS_OK);
}

static void hosts_are_counted_apart_and_bounded(void **state)
{
    struct counted_host busy = {.host = "192.0.2.7"}, idle = {.host = "host0"}, newest = {.host = "host305"};
    struct vaai_nas_counters *counters = vaai_nas_service_counters(*state);
    const struct vaai_nas_clone clone = a_clone(1, 2, 0);
    struct vaai_nas_job job;
    char name[32];

    assert_int_equal(vaai_nas_start_clone(*state, &caller, &clone, 10000, &job, NULL), VAAI_NAS_OK);
    for (unsigned int i = 0; i < VAAI_NAS_COUNTED + 50; i++) {
        snprintf(name, sizeof(name), "host%u", i);
        a_host_asks(*state, name, &clone);
        a_host_asks(*state, "192.0.2.7", &clone);
    }
    vaai_nas_counters_each(counters, find_host, &busy);
    assert_int_equal(busy.set.cloned_bytes, 60);
    assert_int_equal(busy.set.copied_bytes, 40);
    assert_int_equal(busy.set.fallback_bytes[FILEOPS_FALLBACK_MISALIGNED], 40);
    assert_int_equal(busy.set.operation[VAAI_NAS_OPERATION_CLONE].operations, 1);
    assert_int_equal(busy.set.operation[VAAI_NAS_OPERATION_JOB].operations, VAAI_NAS_COUNTED + 50);
    assert_int_equal(busy.rows, VAAI_NAS_COUNTED);
    vaai_nas_counters_each(counters, find_host, &idle);
    assert_int_equal(idle.set.operation[VAAI_NAS_OPERATION_JOB].operations, 0);
    vaai_nas_counters_each(counters, find_host, &newest);
    assert_int_equal(newest.set.operation[VAAI_NAS_OPERATION_JOB].operations, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fast_clones_do_not_wait_behind_copies, begin, end),
        cmocka_unit_test_setup_teardown(procedure_22_says_done_only_of_what_is, begin, end),
        cmocka_unit_test_setup_teardown(callers_beyond_the_places_to_wait_begin_nothing, begin, end),
        cmocka_unit_test_setup_teardown(an_abort_is_done_when_the_clone_has_ended, begin, end),
        cmocka_unit_test_setup_teardown(an_export_that_ends_takes_no_jobs, begin, end),
        cmocka_unit_test_setup_teardown(an_export_does_not_wait_for_ever, begin, end),
        cmocka_unit_test_setup_teardown(a_host_gets_half_of_the_threads, begin, end),
        cmocka_unit_test_setup_teardown(a_pool_that_hangs_stops_no_other, begin, end),
        cmocka_unit_test_setup_teardown(jobs_are_shown_to_whose_they_are_and_who_may_write_there, begin, end),
        cmocka_unit_test_setup_teardown(a_clone_runs_and_its_ways_are_shown, begin, end),
        cmocka_unit_test_setup_teardown(one_request_is_one_job, begin, end),
        cmocka_unit_test_setup_teardown(a_destination_has_one_writer, begin, end),
        cmocka_unit_test_setup_teardown(cancelling_ends_what_runs_and_what_waits, begin, end),
        cmocka_unit_test_setup_teardown(a_running_clone_is_cancelled, begin, end),
        cmocka_unit_test_setup_teardown(an_export_that_ends_has_no_jobs, begin, end),
        cmocka_unit_test_setup_teardown(queues_are_bounded, begin, end),
        cmocka_unit_test_setup_teardown(what_ended_is_forgotten_oldest_first, begin, end),
        cmocka_unit_test_setup_teardown(errors_say_what_is_left, begin, end),
        cmocka_unit_test_setup_teardown(wrong_requests_are_refused_before_anything_is_done, begin, end),
        cmocka_unit_test_setup_teardown(hosts_are_counted_apart_and_bounded, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
