/* A naive model of files and blocks: each block of a file has a number, and shares with all that have the same. */
#ifndef FILEOPS_TESTS_MODEL_H
#define FILEOPS_TESTS_MODEL_H

#include <stdint.h>
#include <stdlib.h>

#define FILES 6
#define BLOCKS 48
#define BLOCK UINT64_C(4096)

struct model {
    uint64_t block[FILES][BLOCKS];
    uint64_t last;
};

static inline void model_write(struct model *model, int file, uint64_t from, uint64_t count)
{
    for (uint64_t i = from; i < from + count; i++)
        model->block[file][i] = ++model->last;
}

static inline void model_clone(struct model *model, int source, uint64_t from, int destination, uint64_t to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        model->block[destination][to + i] = model->block[source][from + i];
}

static inline uint64_t model_references(const struct model *model, uint64_t number)
{
    uint64_t count = 0;
    for (int file = 0; file < FILES; file++)
        for (int i = 0; i < BLOCKS; i++)
            count += model->block[file][i] == number;
    return count;
}

/* What overwriting everything newly takes: each reference but the last of a block. */
static inline uint64_t model_bytes(const struct model *model)
{
    uint64_t bytes = 0;
    for (int file = 0; file < FILES; file++)
        for (int i = 0; i < BLOCKS; i++) {
            const uint64_t number = model->block[file][i];
            int first = 1; /* counted at the first place it is found */
            for (int f = 0; f <= file && first; f++)
                for (int j = 0; j < (f == file ? i : BLOCKS) && first; j++)
                    first = model->block[f][j] != number;
            if (first)
                bytes += (model_references(model, number) - 1) * BLOCK;
        }
    return bytes;
}

/* What overwriting the promised files newly takes, should all others be overwritten before or after as it is worst. */
static inline uint64_t model_needed(const struct model *model, const _Bool promised[FILES])
{
    uint64_t bytes = 0;
    for (uint64_t number = 0; number <= model->last; number++) {
        uint64_t all = 0, own = 0;
        for (int file = 0; file < FILES; file++)
            for (int i = 0; i < BLOCKS; i++) {
                all += model->block[file][i] == number;
                own += promised[file] && model->block[file][i] == number;
            }
        bytes += (all < 2 ? 0 : own < all - 1 ? own : all - 1) * BLOCK;
    }
    return bytes;
}

static inline uint64_t model_shared_of(const struct model *model, int file)
{
    uint64_t bytes = 0;
    for (int i = 0; i < BLOCKS; i++)
        bytes += model_references(model, model->block[file][i]) > 1 ? BLOCK : 0;
    return bytes;
}

/* xorshift64: the same numbers everywhere for a seed. */
static inline uint64_t choose(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

static inline uint64_t seed_of_run(void)
{
    const char *text = getenv("ZVAAI_SEED");
    return (text ? strtoull(text, NULL, 10) : 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
}

#endif
