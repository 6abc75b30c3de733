/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "sharing_proof.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define KSTATS "/proc/spl/kstat/zfs"

#define LONGEST_VALUE 300

/* The value of a name in a kstat: lines of name, type, value. */
static bool kstat_value(const char *path, const char *name, char value[LONGEST_VALUE])
{
    char line[512], found[64];
    unsigned type;
    bool there = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!there && fgets(line, sizeof line, file))
        there = sscanf(line, "%63s %u %299s", found, &type, value) == 3 && !strcmp(found, name);
    fclose(file);
    return there;
}

static bool kstat_number(const char *path, const char *name, uint64_t *number)
{
    char value[LONGEST_VALUE], *end = value;
    if (!kstat_value(path, name, value))
        return false;
    *number = strtoull(value, &end, 10);
    return end != value && !*end;
}

/* The dataset a device number is of: field 3 of mountinfo is it, after " - " come type and source (proc_pid_mountinfo(5)). */
static bool dataset_of(dev_t device, char *name, size_t size)
{
    char *line = NULL;
    size_t room = 0;
    bool there = false;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (!mounts)
        return false;
    while (!there && getline(&line, &room, mounts) > 0) {
        unsigned major_number, minor_number;
        char type[32], source[300];
        const char *rest = strstr(line, " - ");
        there = rest && sscanf(line, "%*u %*u %u:%u", &major_number, &minor_number) == 2 && major_number == major(device) &&
                minor_number == minor(device) && sscanf(rest, " - %31s %299s", type, source) == 2 && !strcmp(type, "zfs") &&
                strlen(source) < size;
        if (there)
            strcpy(name, source);
    }
    free(line);
    fclose(mounts);
    return there;
}

static bool has_name(const char *path, const char *name)
{
    char value[LONGEST_VALUE];
    return kstat_value(path, "dataset_name", value) && !strcmp(value, name);
}

static void find_kstat(int file, char path[300])
{
    struct stat status;
    char name[256], folder[300];
    path[0] = 0;
    if (fstat(file, &status) || !dataset_of(status.st_dev, name, sizeof name))
        return;
    snprintf(folder, sizeof folder, KSTATS "/%.*s", (int)strcspn(name, "/"), name);
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    for (struct dirent *entry; !path[0] && (entry = readdir(directory));) {
        char candidate[600];
        if (strncmp(entry->d_name, "objset-", 7))
            continue;
        snprintf(candidate, sizeof candidate, "%s/%s", folder, entry->d_name);
        if (strlen(candidate) < 300 && has_name(candidate, name))
            strcpy(path, candidate);
    }
    closedir(directory);
}

void sharing_proof_init(struct sharing_proof *proof, int source, int destination)
{
    *proof = (struct sharing_proof){0};
    find_kstat(source, proof->source);
    find_kstat(destination, proof->destination);
}

void sharing_proof_before(struct sharing_proof *proof)
{
    if (!proof->source[0] || !kstat_number(proof->source, "nread", &proof->read))
        proof->source[0] = 0;
    if (!proof->destination[0] || !kstat_number(proof->destination, "nwritten", &proof->written))
        proof->destination[0] = 0;
}

bool sharing_proof_after(const struct sharing_proof *proof, uint64_t bytes)
{
    uint64_t read, written;
    if (proof->source[0] && kstat_number(proof->source, "nread", &read) && read - proof->read < bytes)
        return true;
    return proof->destination[0] && kstat_number(proof->destination, "nwritten", &written) && written - proof->written < bytes;
}
