/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "fake_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fileops/changes.h"
#include "../fileops/clone.h"
#include "../fileops/statistics.h"

#define CALLS_MAX 16u

const struct vaai_nas_caller fake_caller = {.host = "192.0.2.7"};
static unsigned int open_files, calls, clones;
static char directory[256];

void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "violated: %s\n", what);
    abort();
}

bool next_call(const uint8_t **input, size_t *left, const uint8_t **call, size_t *length)
{
    if (*left < 2 || ++calls > CALLS_MAX)
        return false;
    *length = (size_t)(*input)[0] | (size_t)(*input)[1] << 8;
    *input += 2;
    *left -= 2;
    if (*length > *left)
        *length = *left;
    *call = *input;
    *input += *length;
    *left -= *length;
    return true;
}

int fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result)
{
    static const int errors[] = {EXDEV, EOPNOTSUPP, EBUSY, ENOSPC, EIO, ECANCELED, EFBIG, 12345};
    unsigned int number = __atomic_fetch_add(&clones, 1, __ATOMIC_RELAXED);

    memset(result, 0, sizeof(*result));
    must(request->source >= 0 && (request->destination >= 0 || request->name[0] != 0), "a clone has a source and a destination");
    must(request->name == NULL || strchr(request->name, '/') == NULL, "a name is one component");
    if (number % 5 == 4)
        return errors[number / 5 % (sizeof(errors) / sizeof(errors[0]))];
    if (request->progress != NULL && !request->progress(request->progress_context, 1, 100))
        return ECANCELED;
    *result =
        (struct fileops_clone_result){.done = 100, .cloned = 60, .copied = 40, .fallback = {[FILEOPS_FALLBACK_MISALIGNED] = 40}};
    return 0;
}

const char *fileops_fallback_name(enum fileops_fallback reason)
{
    return reason < FILEOPS_FALLBACK_COUNT ? "some_reason" : NULL;
}

int fileops_reserve(struct fileops_dataset *dataset, int file)
{
    struct stat status;

    must(dataset != NULL, "a file has a dataset");
    return fstat(file, &status) != 0 ? errno : status.st_ino % 2 == 0 ? ENOSPC : 0;
}

int fileops_statistics(struct fileops_dataset *dataset, int file, const struct timespec *until,
                       struct fileops_statistics *statistics)
{
    (void)file;
    (void)until;
    must(dataset != NULL, "a file has a dataset");
    *statistics =
        (struct fileops_statistics){.total = 1 << 20, .allocated = 8192, .unique = 4096, .unique_exact = true, .reserved = 4096};
    return 0;
}

int fileops_sizes(struct fileops_dataset *dataset, int file, struct fileops_statistics *statistics)
{
    return fileops_statistics(dataset, file, NULL, statistics);
}

void fileops_dataset_status(struct fileops_dataset *dataset, struct fileops_dataset_status *status)
{
    must(dataset != NULL, "a file has a dataset");
    *status = (struct fileops_dataset_status){.thick = true, .size = 1 << 30};
}

int fileops_dataset_shared(struct fileops_dataset *dataset, bool restart, struct fileops_dataset_shared *shared)
{
    must(dataset != NULL, "a file has a dataset");
    *shared = (struct fileops_dataset_shared){.complete = !restart, .shared = 4096};
    return restart ? 0 : EOPNOTSUPP;
}

static enum vaai_nas_status fake_open(const struct vaai_nas_caller *caller, const struct vaai_nas_handle *handle,
                                      enum vaai_nas_access access, struct vaai_nas_file *file)
{
    static char dataset; /* never read */
    uint8_t number = handle->bytes[0];

    must((caller == &fake_caller || caller->local) && handle->length <= VAAI_NAS_HANDLE_SIZE,
         "caller and bounded handle are passed on");
    if (handle->length != 1)
        return VAAI_NAS_BAD_HANDLE;
    if (number > 202)
        return VAAI_NAS_STALE;
    bool is_directory = number >= 200, other = (number >= 100 && number < 200) || number == 202;
    if (is_directory && (access == VAAI_NAS_READ || access == VAAI_NAS_WRITE || access == VAAI_NAS_MAY_WRITE))
        return VAAI_NAS_IS_DIRECTORY;
    if (!is_directory && access == VAAI_NAS_CREATE)
        return VAAI_NAS_NOT_DIRECTORY;
    file->read_only = number >= 150 && number < 200;
    if (file->read_only && access != VAAI_NAS_INSPECT && access != VAAI_NAS_READ)
        return VAAI_NAS_READ_ONLY;
    if (number < 20 && access != VAAI_NAS_INSPECT && !caller->local)
        return VAAI_NAS_ACCESS;
    snprintf(file->export_path, sizeof(file->export_path), "/export%u", other ? 2u : 1u);
    snprintf(file->export_directory, sizeof(file->export_directory), "%s", directory);
    char path[sizeof(directory) + 16];
    snprintf(path, sizeof(path), "%s%s", directory, number == 201 ? "/vm1" : is_directory ? "" : "/file");
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    must(file->fd >= 0, "the fuzzer has files");
    file->is_directory = is_directory;
    file->device = 1;
    file->inode = number;
    file->export_id = other ? 2 : 1;
    snprintf(file->pool, sizeof(file->pool), "pool%u", file->export_id);
    file->owner = 1000;
    file->dataset = (struct fileops_dataset *)(void *)&dataset;
    __atomic_add_fetch(&open_files, 1, __ATOMIC_RELAXED);
    return VAAI_NAS_OK;
}

static void fake_changed(const struct vaai_nas_file *file)
{
    must(file->fd >= 0, "a changed file is open");
}

static void fake_close(struct vaai_nas_file *file)
{
    if (file->fd < 0)
        return;
    close(file->fd);
    file->fd = -1;
    __atomic_sub_fetch(&open_files, 1, __ATOMIC_RELAXED);
}

static bool fake_is_ending(const struct vaai_nas_file *file)
{
    must(file->fd >= 0, "the file is open");
    return false;
}

/* "" is the export, "vm1" a directory, and the number that a path begins with a file. */
static enum vaai_nas_status fake_find(uint16_t export_id, const char *path, struct vaai_nas_handle *handle)
{
    must(strlen(path) < VAAI_NAS_PATH_SIZE && path[0] != '/' && strstr(path, "//") == NULL, "the name is a path");
    for (const char *name = path; name != NULL; name = strchr(name, '/')) {
        name += *name == '/';
        must(strncmp(name, "..", 2) != 0 || (name[2] != '/' && name[2] != 0), "the path stays in the export");
    }
    if (export_id != 1)
        return VAAI_NAS_STALE;
    handle->length = 1;
    handle->bytes[0] = *path == 0 ? 200 : strcmp(path, "vm1") == 0 ? 201 : (uint8_t)strtoul(path, NULL, 10);
    return VAAI_NAS_OK;
}

static const struct vaai_nas_adapter adapter = {
    .open = fake_open, .changed = fake_changed, .close = fake_close, .is_ending = fake_is_ending, .find = fake_find};

/* Empty after each input. */
static void make_files(void)
{
    char path[sizeof(directory) + 16];
    const char *place = getenv("TMPDIR");

    snprintf(directory, sizeof(directory), "%s/zvaai-fuzz-XXXXXX", place != NULL ? place : "/tmp");
    must(mkdtemp(directory) != NULL, "no folder for files");
    snprintf(path, sizeof(path), "%s/vm1", directory);
    must(mkdir(path, 0700) == 0, "a directory");
    snprintf(path, sizeof(path), "%s/file", directory);
    int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    must(file >= 0, "a file");
    close(file);
}

struct vaai_nas_service *fake_service_begin(void)
{
    const struct vaai_nas_service_options options = {
        .adapter = &adapter, .workers = 1, .do_milliseconds = 2000, .cancel_milliseconds = 2000};

    if (directory[0] == 0)
        make_files();
    calls = clones = 0;
    struct vaai_nas_service *service = vaai_nas_service_new(&options);
    must(service != NULL, "no memory for a service");
    return service;
}

void fake_service_end(struct vaai_nas_service *service)
{
    vaai_nas_service_free(service);
    must(open_files == 0, "every file was closed");
}
