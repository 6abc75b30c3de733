/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Replaces libFuzzer, so that tests of any compiler can run the fuzz programs. usage: PROGRAM FOLDER...   each file of these folders */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void replay(const char *folder, const char *name)
{
    static uint8_t input[INPUT_MAX];
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    size_t size = fread(input, 1, sizeof(input), file);
    fclose(file);
    LLVMFuzzerTestOneInput(input, size);
}

int main(int count, char **arguments)
{
    unsigned int inputs = 0;

    for (int number = 1; number < count; number++) {
        struct dirent **entries;
        int entry_count = scandir(arguments[number], &entries, NULL, alphasort);
        for (int entry = 0; entry < entry_count; entry++) {
            if (entries[entry]->d_name[0] != '.') {
                replay(arguments[number], entries[entry]->d_name);
                inputs++;
            }
            free(entries[entry]);
        }
        if (entry_count >= 0)
            free(entries);
    }
    printf("%u inputs\n", inputs);
    return inputs == 0;
}
