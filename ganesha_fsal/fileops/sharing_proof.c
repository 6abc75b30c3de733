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

/* Value of a name in a kstat: lines of name, type, value. */
static bool sharing_proof_kstat_value(const char *path, const char *name, char value[LONGEST_VALUE])
{
    char line[512], key[64];
    unsigned type;
    bool is_set = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!is_set && fgets(line, sizeof line, file))
        is_set = sscanf(line, "%63s %u %299s", key, &type, value) == 3 && !strcmp(key, name);
    fclose(file);
    return is_set;
}

static bool sharing_proof_kstat_number(const char *path, const char *name, uint64_t *number)
{
    char value[LONGEST_VALUE], *end = value;
    if (!sharing_proof_kstat_value(path, name, value))
        return false;
    *number = strtoull(value, &end, 10);
    return end != value && !*end;
}

/* Dataset of a device number: field 3 of mountinfo; type and source follow " - " (proc_pid_mountinfo(5)). */
static bool sharing_proof_dataset_of(dev_t device, char *name, size_t size)
{
    char *line = NULL;
    size_t room = 0;
    bool is_set = false;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (!mounts)
        return false;
    while (!is_set && getline(&line, &room, mounts) > 0) {
        unsigned major_number, minor_number;
        char type[32], source[300];
        const char *rest = strstr(line, " - ");
        is_set = rest && sscanf(line, "%*u %*u %u:%u", &major_number, &minor_number) == 2 && major_number == major(device) &&
                 minor_number == minor(device) && sscanf(rest, " - %31s %299s", type, source) == 2 && !strcmp(type, "zfs") &&
                 strlen(source) < size;
        if (is_set)
            strcpy(name, source);
    }
    free(line);
    fclose(mounts);
    return is_set;
}

static bool sharing_proof_has_name(const char *path, const char *name)
{
    char value[LONGEST_VALUE];
    return sharing_proof_kstat_value(path, "dataset_name", value) && !strcmp(value, name);
}

static void sharing_proof_find_kstat(int file, char path[300])
{
    struct stat status;
    char name[256], folder[300];
    path[0] = 0;
    if (fstat(file, &status) || !sharing_proof_dataset_of(status.st_dev, name, sizeof name))
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
        if (strlen(candidate) < 300 && sharing_proof_has_name(candidate, name))
            strcpy(path, candidate);
    }
    closedir(directory);
}

void sharing_proof_init(struct sharing_proof *proof, int source, int destination)
{
    *proof = (struct sharing_proof){0};
    sharing_proof_find_kstat(source, proof->source);
    sharing_proof_find_kstat(destination, proof->destination);
}

void sharing_proof_before(struct sharing_proof *proof)
{
    if (!proof->source[0] || !sharing_proof_kstat_number(proof->source, "nread", &proof->read))
        proof->source[0] = 0;
    if (!proof->destination[0] || !sharing_proof_kstat_number(proof->destination, "nwritten", &proof->written))
        proof->destination[0] = 0;
}

bool sharing_proof_after(const struct sharing_proof *proof, uint64_t bytes)
{
    uint64_t read, written;
    if (proof->source[0] && sharing_proof_kstat_number(proof->source, "nread", &read) && read - proof->read < bytes)
        return true;
    return proof->destination[0] && sharing_proof_kstat_number(proof->destination, "nwritten", &written) &&
           written - proof->written < bytes;
}
