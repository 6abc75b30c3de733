/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "vmdk_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fileops/dataset.h"
#include "files.h"

#define DESCRIPTOR_BYTES_MAX 65536
static const char descriptor_begins[] = "# Disk DescriptorFile";

struct walk {
    struct vmdk_list *list;
    const char *after;
    size_t limit, scanned;
    bool (*is_to_end)(void *context);
    void *context;
    dev_t device;
    char path[VAAI_NAS_FILE_PATH_SIZE];
};

/* Length of a well-formed character (RFC 3629, 4) other than a control character; 0 for none. */
static size_t vmdk_list_character(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = text[0];
    const size_t length = first < 0x80             ? 1
                          : (first & 0xe0) == 0xc0 ? 2
                          : (first & 0xf0) == 0xe0 ? 3
                          : (first & 0xf8) == 0xf0 ? 4
                                                   : 0;
    uint32_t value = length < 2 ? first : first & (0x7fu >> length);

    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (text[i] & 0x3fu);
    }
    if (length == 0 || value < 0x20 || (value >= 0x7f && value < 0xa0) || value < least[length] || value > 0x10ffff ||
        (value >= 0xd800 && value < 0xe000))
        return 0;
    return length;
}

static bool vmdk_list_is_text(const char *name)
{
    const unsigned char *at = (const unsigned char *)name;

    while (*at != 0) {
        size_t length = vmdk_list_character(at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

static bool vmdk_list_is_vmdk(const char *name)
{
    const size_t length = strlen(name);

    return length > 5 && strcasecmp(name + length - 5, ".vmdk") == 0;
}

/* `opened` is the regular file, by O_PATH. By now its name may belong to another file, for instance a device, on which open(2) has an effect. */
static bool vmdk_list_is_descriptor(int opened)
{
    char path[32], begin[sizeof(descriptor_begins) - 1];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", opened);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t length = pread(file, begin, sizeof(begin), 0);
    close(file);
    return length == (ssize_t)sizeof(begin) && memcmp(begin, descriptor_begins, sizeof(begin)) == 0;
}

/* Whether it is a file with data, and its attributes. */
static bool vmdk_list_has_data(struct walk *walk, int directory, const char *name, struct stat *attributes)
{
    const int file = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bool has = file >= 0 && fstat(file, attributes) == 0;

    if (!has)
        walk->list->incomplete = walk->list->incomplete || errno != ENOENT;
    has = has && S_ISREG(attributes->st_mode) && (attributes->st_size > DESCRIPTOR_BYTES_MAX || !vmdk_list_is_descriptor(file));
    if (file >= 0)
        close(file);
    return has;
}

/* Keeps the file if it is among the first limit + 1 after `after`. */
static int vmdk_list_insert(struct walk *walk, int directory, const char *name)
{
    struct vmdk_list *list = walk->list;
    struct stat attributes;
    size_t place = list->count;

    if (strcmp(walk->path, walk->after) <= 0)
        return 0;
    while (place > 0 && strcmp(walk->path, list->file[place - 1].path) < 0)
        place--;
    if (place > walk->limit)
        return 0;
    if (!vmdk_list_has_data(walk, directory, name, &attributes))
        return 0;
    char *path = strdup(walk->path);
    if (path == NULL)
        return ENOMEM;
    if (list->count > walk->limit)
        free(list->file[--list->count].path);
    memmove(&list->file[place + 1], &list->file[place], (list->count - place) * sizeof(list->file[0]));
    list->file[place] = (struct vmdk_file){
        .path = path, .total_bytes = (uint64_t)attributes.st_size, .allocated_bytes = (uint64_t)attributes.st_blocks * 512};
    list->count++;
    return 0;
}

static int vmdk_list_walk_directory(struct walk *walk, int directory, size_t length, unsigned int depth);

static int vmdk_list_enter(struct walk *walk, int parent, const char *name, size_t length, unsigned int depth)
{
    struct stat attributes;
    const int directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (directory < 0) {
        walk->list->incomplete = walk->list->incomplete || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP);
        return 0;
    }
    if (fstat(directory, &attributes) != 0 || attributes.st_dev != walk->device) {
        close(directory);
        return 0;
    }
    if (depth >= VMDK_LIST_DEPTH) {
        walk->list->incomplete = true;
        close(directory);
        return 0;
    }
    walk->path[length] = '/';
    return vmdk_list_walk_directory(walk, directory, length + 1, depth + 1);
}

static int vmdk_list_visit(struct walk *walk, int directory, const struct dirent *entry, size_t length, unsigned int depth)
{
    const size_t name_length = strlen(entry->d_name);
    struct stat attributes;
    bool is_directory = entry->d_type == DT_DIR;

    if (entry->d_type == DT_UNKNOWN && fstatat(directory, entry->d_name, &attributes, AT_SYMLINK_NOFOLLOW) == 0)
        is_directory = S_ISDIR(attributes.st_mode);
    if (!is_directory && !vmdk_list_is_vmdk(entry->d_name))
        return 0;
    if (length + name_length + 1 >= sizeof(walk->path) || !vmdk_list_is_text(entry->d_name)) {
        walk->list->incomplete = true;
        return 0;
    }
    memcpy(walk->path + length, entry->d_name, name_length + 1);
    return is_directory ? vmdk_list_enter(walk, directory, entry->d_name, length + name_length, depth)
                        : vmdk_list_insert(walk, directory, entry->d_name);
}

/* Whether a name in the topmost directory is hidden from clients. */
static bool vmdk_list_is_hidden(const char *name)
{
    return strcmp(name, FILEOPS_CLONES_FOLDER) == 0 || strcmp(name, ".zfs") == 0;
}

/* Takes ownership of `directory`. The first `length` bytes of walk->path are its path, with a slash. */
static int vmdk_list_walk_directory(struct walk *walk, int directory, size_t length, unsigned int depth)
{
    DIR *stream = fdopendir(directory);
    const struct dirent *entry;
    int error = 0;

    if (stream == NULL) {
        error = errno;
        close(directory);
        return error;
    }
    while (error == 0 && walk->scanned < VMDK_LIST_NAMES_MAX && (errno = 0, entry = readdir(stream)) != NULL) {
        if (++walk->scanned % VMDK_LIST_CHECK_INTERVAL == 0 && walk->is_to_end != NULL && walk->is_to_end(walk->context)) {
            error = ECANCELED;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            (depth > 0 || !vmdk_list_is_hidden(entry->d_name)))
            error = vmdk_list_visit(walk, dirfd(stream), entry, length, depth);
    }
    if (walk->scanned >= VMDK_LIST_NAMES_MAX || (error == 0 && errno != 0))
        walk->list->incomplete = true;
    closedir(stream);
    return error;
}

int vmdk_list(int directory, const char *after, size_t limit, bool (*is_to_end)(void *context), void *context,
              struct vmdk_list *list)
{
    struct walk walk = {.list = list,
                        .after = after,
                        .limit = limit < VMDK_LIST_MAX ? limit : VMDK_LIST_MAX,
                        .is_to_end = is_to_end,
                        .context = context};
    struct stat attributes;
    const int root = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* with a separate offset */

    if (root < 0)
        return errno;
    if (fstat(root, &attributes) != 0) {
        const int error = errno;
        close(root);
        return error;
    }
    walk.device = attributes.st_dev;
    const int error = vmdk_list_walk_directory(&walk, root, 0, 0);
    list->more = list->count > walk.limit;
    if (list->more)
        free(list->file[--list->count].path);
    return error;
}

void vmdk_list_free(struct vmdk_list *list)
{
    while (list->count > 0)
        free(list->file[--list->count].path);
}
