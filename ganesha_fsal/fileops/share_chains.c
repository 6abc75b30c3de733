#include "share_chains.h"

#include <stdlib.h>

static size_t bucket_of(const struct share_table *table, uint64_t number)
{
    return (size_t)((number * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (table->bucket_count - 1);
}

bool share_table_init(struct share_table *table)
{
    table->bucket_count = 64;
    table->buckets = calloc(table->bucket_count, sizeof *table->buckets);
    return table->buckets != NULL;
}

void share_table_free(struct share_table *table)
{
    for (size_t i = 0; table->buckets && i < table->bucket_count; i++)
        for (struct share_chain *chain = table->buckets[i], *next; chain; chain = next) {
            next = chain->next;
            share_counts_free(&chain->counts);
            free(chain);
        }
    free(table->buckets);
}

struct share_chain *share_find(const struct share_table *table, uint64_t number)
{
    struct share_chain *chain = table->buckets[bucket_of(table, number)];
    while (chain && chain->number != number)
        chain = chain->next;
    return chain;
}

static void grow(struct share_table *table)
{
    struct share_table larger = {.bucket_count = table->bucket_count * 4, .chain_count = table->chain_count};
    larger.buckets = calloc(larger.bucket_count, sizeof *larger.buckets);
    if (!larger.buckets)
        return; /* slower, and right */
    for (size_t i = 0; i < table->bucket_count; i++)
        for (struct share_chain *chain = table->buckets[i], *next; chain; chain = next) {
            const size_t bucket = bucket_of(&larger, chain->number);
            next = chain->next;
            chain->next = larger.buckets[bucket];
            larger.buckets[bucket] = chain;
        }
    free(table->buckets);
    *table = larger;
}

struct share_chain *share_find_or_make(struct share_table *table, uint64_t number)
{
    struct share_chain *chain = share_find(table, number);
    if (chain)
        return chain;
    chain = calloc(1, sizeof *chain);
    if (!chain)
        return NULL;
    if (table->chain_count > table->bucket_count * 2)
        grow(table);
    const size_t bucket = bucket_of(table, number);
    chain->number = number;
    chain->next = table->buckets[bucket];
    table->buckets[bucket] = chain;
    table->chain_count++;
    return chain;
}

void share_drop_if_empty(struct share_table *table, struct share_chain *chain)
{
    if (chain->first)
        return;
    struct share_chain **place = &table->buckets[bucket_of(table, chain->number)];
    while (*place != chain)
        place = &(*place)->next;
    *place = chain->next;
    table->chain_count--;
    share_counts_free(&chain->counts);
    free(chain);
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct share_node *share_insert(struct fileops_share_map *map, const struct fileops_reference *reference)
{
    struct share_node *node = calloc(1, sizeof *node);
    struct share_chain *file = node ? share_find_or_make(&map->files, reference->inode) : NULL;
    struct share_chain *extent = file ? share_find_or_make(&map->extents, reference->extent) : NULL;
    if (!extent) {
        if (file)
            share_drop_if_empty(&map->files, file);
        free(node);
        return NULL;
    }
    node->reference = *reference;
    node->next_of_file = file->first;
    if (file->first)
        file->first->previous_of_file = node;
    file->first = node;
    file->length++;
    node->next_of_extent = extent->first;
    if (extent->first)
        extent->first->previous_of_extent = node;
    extent->first = node;
    extent->length++;
    map->last_id = greater(map->last_id, reference->id);
    map->last_sequence = greater(map->last_sequence, reference->sequence);
    map->last_extent = greater(map->last_extent, reference->extent);
    return node;
}

void share_take_out(struct share_chain *file, struct share_chain *extent, struct share_node *node)
{
    if (node->previous_of_file)
        node->previous_of_file->next_of_file = node->next_of_file;
    else
        file->first = node->next_of_file;
    if (node->next_of_file)
        node->next_of_file->previous_of_file = node->previous_of_file;
    file->length--;
    if (node->previous_of_extent)
        node->previous_of_extent->next_of_extent = node->next_of_extent;
    else
        extent->first = node->next_of_extent;
    if (node->next_of_extent)
        node->next_of_extent->previous_of_extent = node->previous_of_extent;
    extent->length--;
    free(node);
}

static int change_counts(struct fileops_share_map *map, struct share_chain *extent, uint64_t offset, uint64_t length, int references, int promised)
{
    const uint64_t excess = extent->counts.excess, needed = extent->counts.needed;
    const int error = share_counts_change(&extent->counts, offset, offset + length, references, promised);
    map->bytes += extent->counts.excess - excess;
    map->needed += extent->counts.needed - needed;
    return error;
}

int share_count(struct fileops_share_map *map, struct share_chain *extent, uint64_t inode, uint64_t offset, uint64_t length, int by)
{
    return change_counts(map, extent, offset, length, by, share_find(&map->promised, inode) ? by : 0);
}

int share_count_promised(struct fileops_share_map *map, struct share_chain *extent, uint64_t offset, uint64_t length, int by)
{
    return change_counts(map, extent, offset, length, 0, by);
}
