/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "vmdk_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fileops/dataset.h"
#include "../fileops/walk.h"
#include "files.h"

#define DESCRIPTOR_BYTES_MAX 65536
static const char descriptor_begins[] = "# Disk DescriptorFile";

struct listing {
    struct vmdk_list *list;
    const char *after;
    size_t limit, scanned;
    bool (*is_to_end)(void *context);
    void *context;
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
static bool vmdk_list_has_data(struct listing *listing, const struct walk_name *name, struct stat *attributes)
{
    const int file = openat(name->folder, name->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bool has = file >= 0 && fstat(file, attributes) == 0;

    if (!has)
        listing->list->incomplete = listing->list->incomplete || errno != ENOENT;
    has = has && S_ISREG(attributes->st_mode) && (attributes->st_size > DESCRIPTOR_BYTES_MAX || !vmdk_list_is_descriptor(file));
    if (file >= 0)
        close(file);
    return has;
}

/* Keeps the file if it is among the first limit + 1 after `after`. */
static int vmdk_list_insert(struct listing *listing, const struct walk_name *name)
{
    struct vmdk_list *list = listing->list;
    struct stat attributes;
    size_t place = list->count;

    if (strcmp(name->path, listing->after) <= 0)
        return 0;
    while (place > 0 && strcmp(name->path, list->file[place - 1].path) < 0)
        place--;
    if (place > listing->limit || !vmdk_list_has_data(listing, name, &attributes))
        return 0;
    char *path = strdup(name->path);
    if (path == NULL)
        return ENOMEM;
    if (list->count > listing->limit)
        free(list->file[--list->count].path);
    memmove(&list->file[place + 1], &list->file[place], (list->count - place) * sizeof(list->file[0]));
    list->file[place] = (struct vmdk_file){
        .path = path, .total_bytes = (uint64_t)attributes.st_size, .allocated_bytes = (uint64_t)attributes.st_blocks * 512};
    list->count++;
    return 0;
}

static int vmdk_list_leave_out(struct listing *listing, int result)
{
    listing->list->incomplete = true;
    return result;
}

static int vmdk_list_visit(void *context, const struct walk_name *name)
{
    struct listing *listing = context;

    if (name->error != 0)
        return vmdk_list_leave_out(listing, 0);
    if (listing->scanned++ >= VMDK_LIST_NAMES_MAX)
        return vmdk_list_leave_out(listing, WALK_END);
    if (listing->scanned % VMDK_LIST_CHECK_INTERVAL == 0 && listing->is_to_end != NULL && listing->is_to_end(listing->context))
        return ECANCELED;
    if (strcmp(name->path, FILEOPS_CLONES_FOLDER) == 0 || (!name->is_folder && !vmdk_list_is_vmdk(name->name)))
        return WALK_SKIP;
    if (strlen(name->path) >= VAAI_NAS_FILE_PATH_SIZE || !vmdk_list_is_text(name->name))
        return vmdk_list_leave_out(listing, WALK_SKIP);
    if (name->is_folder)
        return name->depth < VMDK_LIST_DEPTH ? 0 : vmdk_list_leave_out(listing, WALK_SKIP);
    return vmdk_list_insert(listing, name);
}

int vmdk_list(int directory, const char *after, size_t limit, bool (*is_to_end)(void *context), void *context,
              struct vmdk_list *list)
{
    struct listing listing = {.list = list,
                              .after = after,
                              .limit = limit < VMDK_LIST_MAX ? limit : VMDK_LIST_MAX,
                              .is_to_end = is_to_end,
                              .context = context};
    const int error = walk_files(directory, ".", vmdk_list_visit, &listing);

    list->more = list->count > listing.limit;
    if (list->more)
        free(list->file[--list->count].path);
    return error;
}

void vmdk_list_free(struct vmdk_list *list)
{
    while (list->count > 0)
        free(list->file[--list->count].path);
}
