/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, zeroes and unmaps LUNs as a hypervisor does, by offloads or by the host itself; libiscsi, one thread.
 *
 * usage: offload copy|xcopy SOURCE_URL DESTINATION_URL LENGTH COMMAND_BYTES DEPTH [RUN STRIDE]
 *        offload fill|zero|same|unmap - URL LENGTH COMMAND_BYTES DEPTH [RUN STRIDE]
 *        offload ats - URL SECONDS SESSIONS
 *
 * copy reads and writes, xcopy is EXTENDED COPY with one segment a command, fill writes noise, zero writes zeroes, same is WRITE SAME(16)
 * of zeroes, unmap UNMAP with one descriptor. With RUN and STRIDE only the first RUN bytes of each STRIDE bytes of LENGTH. ats: each
 * session sets a separate block by COMPARE AND WRITE, repeatedly.
 * Prints one line of JSON: bytes or commands done, and seconds; ats also the median, 99th percentile and longest time of a command. Ends with 1 and a message when a command fails. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

#define MOST_SESSIONS 64
#define NAA_BYTES 16
/* SPC-4: Identification CSCD descriptor, segment descriptor block to block, list identifier not there. */
#define HEADER_BYTES 16
#define CSCD_BYTES 32
#define SEGMENT_BYTES 28
#define NO_LIST 0x18

struct end {
    struct iscsi_context *iscsi;
    int lun;
    unsigned char naa[NAA_BYTES];
};

struct slot {
    struct end *end;
    uint64_t address;
    unsigned char *data;
    struct scsi_iovec vector;
    double started;
};

/* Times of ATS commands in steps of 10 us up to 10 s; longer ones count as that. */
#define TIME_STEPS 1000000

enum job { COPY, XCOPY, FILL, ZERO, SAME, UNMAP, ATS };
static const char *const jobs[] = {"copy", "xcopy", "fill", "zero", "same", "unmap", "ats"};

static enum job job;
static struct end ends[MOST_SESSIONS];
static int end_count, in_flight;
static uint32_t logical_block_bytes, command_blocks;
static uint64_t next_block, end_block, run_blocks, stride_blocks, done_blocks, commands;
static double deadline, longest;
static uint32_t times[TIME_STEPS + 1];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "offload: %s: %s\n", what, why);
    exit(1);
}

static void log_in(const char *text) {
    if (end_count == MOST_SESSIONS)
        fail("usage", "too many sessions");
    struct end *end = &ends[end_count];
    char name[128];
    snprintf(name, sizeof name, "iqn.2026-11.example.zvaai:load-%d", end_count++);
    end->iscsi = iscsi_create_context(name);
    struct iscsi_url *url = end->iscsi ? iscsi_parse_full_url(end->iscsi, text) : NULL;
    if (!url)
        fail(text, "no URL of a LUN");
    iscsi_set_session_type(end->iscsi, ISCSI_SESSION_NORMAL);
    iscsi_set_header_digest(end->iscsi, ISCSI_HEADER_DIGEST_NONE);
    iscsi_set_targetname(end->iscsi, url->target);
    if (iscsi_full_connect_sync(end->iscsi, url->portal, url->lun))
        fail(url->portal, iscsi_get_error(end->iscsi));
    end->lun = url->lun;
    struct scsi_task *task = iscsi_readcapacity16_sync(end->iscsi, url->lun);
    if (!task || task->status != SCSI_STATUS_GOOD)
        fail("READ CAPACITY", iscsi_get_error(end->iscsi));
    struct scsi_readcapacity16 *capacity = scsi_datain_unmarshall(task);
    logical_block_bytes = capacity->block_length;
    scsi_free_scsi_task(task);
    task = iscsi_inquiry_sync(end->iscsi, url->lun, 1, 0x83, 255);
    if (!task || task->status != SCSI_STATUS_GOOD)
        fail("INQUIRY", iscsi_get_error(end->iscsi));
    struct scsi_inquiry_device_identification *names = scsi_datain_unmarshall(task);
    for (struct scsi_inquiry_device_designator *designator = names->designators; designator; designator = designator->next)
        if (designator->designator_type == SCSI_DESIGNATOR_TYPE_NAA && designator->designator_length == NAA_BYTES)
            memcpy(end->naa, designator->designator, NAA_BYTES);
    scsi_free_scsi_task(task);
    iscsi_destroy_url(url);
}

static void put(unsigned char *at, uint64_t value, int bytes) {
    while (bytes--) {
        at[bytes] = (unsigned char)value;
        value >>= 8;
    }
}

static void cscd(unsigned char *at, const struct end *end) {
    at[0] = 0xe4;
    at[4] = 1;
    at[5] = 3;
    at[7] = NAA_BYTES;
    memcpy(at + 8, end->naa, NAA_BYTES);
    put(at + 29, logical_block_bytes, 3);
}

static struct scsi_task *extended_copy(struct slot *slot, iscsi_command_cb answered) {
    unsigned char *list = slot->data;
    memset(list, 0, HEADER_BYTES + 2 * CSCD_BYTES + SEGMENT_BYTES);
    list[1] = NO_LIST;
    put(list + 2, 2 * CSCD_BYTES, 2);
    put(list + 8, SEGMENT_BYTES, 4);
    cscd(list + HEADER_BYTES, &ends[0]);
    cscd(list + HEADER_BYTES + CSCD_BYTES, &ends[1]);
    unsigned char *segment = list + HEADER_BYTES + 2 * CSCD_BYTES;
    segment[0] = 2;
    segment[1] = 2;
    put(segment + 2, SEGMENT_BYTES - 4, 2);
    put(segment + 6, 1, 2);
    put(segment + 10, command_blocks, 2);
    put(segment + 12, slot->address, 8);
    put(segment + 20, slot->address, 8);
    struct iscsi_data data = {.data = list, .size = HEADER_BYTES + 2 * CSCD_BYTES + SEGMENT_BYTES};
    return iscsi_extended_copy_task(slot->end->iscsi, slot->end->lun, &data, answered, slot);
}

static void start(struct slot *slot);

static void check(struct iscsi_context *iscsi, int status, struct scsi_task *task) {
    if (status != SCSI_STATUS_GOOD)
        fail("a command failed", iscsi_get_error(iscsi));
    scsi_free_scsi_task(task);
}

static void ended(struct iscsi_context *iscsi, int status, void *task, void *private_data) {
    check(iscsi, status, task);
    in_flight--;
    commands++;
    double seconds = now() - ((struct slot *)private_data)->started;
    times[seconds < TIME_STEPS * 1e-5 ? (int)(seconds * 1e5) : TIME_STEPS]++;
    if (seconds > longest)
        longest = seconds;
    done_blocks += command_blocks;
    start(private_data);
}

static void was_read(struct iscsi_context *iscsi, int status, void *task, void *private_data) {
    check(iscsi, status, task);
    struct slot *slot = private_data;
    if (!iscsi_write16_iov_task(ends[1].iscsi, ends[1].lun, slot->address, NULL, command_blocks * logical_block_bytes,
                                (int)logical_block_bytes, 0, 0, 0, 0, 0, ended, slot, &slot->vector, 1))
        fail("cannot send", iscsi_get_error(ends[1].iscsi));
}

/* Whether there is one more; its address. */
static int advance(uint64_t *address) {
    if (job == ATS)
        return now() < deadline;
    if (next_block % stride_blocks >= run_blocks)
        next_block += stride_blocks - next_block % stride_blocks;
    *address = next_block;
    next_block += command_blocks;
    return next_block <= end_block;
}

static void start(struct slot *slot) {
    if (!advance(&slot->address))
        return;
    struct iscsi_context *iscsi = slot->end->iscsi;
    int lun = slot->end->lun, size = (int)logical_block_bytes;
    uint32_t bytes = command_blocks * logical_block_bytes;
    struct unmap_list range = {.lba = slot->address, .num = command_blocks};
    struct scsi_task *task = NULL;
    switch (job) {
    case COPY:
        task = iscsi_read16_iov_task(ends[0].iscsi, ends[0].lun, slot->address, bytes, size, 0, 0, 0, 0, 0, was_read, slot,
                                     &slot->vector, 1);
        break;
    case XCOPY:
        task = extended_copy(slot, ended);
        break;
    case FILL:
        for (uint32_t at = 0; at < command_blocks; at++) /* no two blocks alike */
            put(slot->data + at * logical_block_bytes, slot->address + at, 8);
        /* fall through */
    case ZERO:
        task = iscsi_write16_iov_task(iscsi, lun, slot->address, NULL, bytes, size, 0, 0, 0, 0, 0, ended, slot, &slot->vector, 1);
        break;
    case SAME:
        task = iscsi_writesame16_task(iscsi, lun, slot->address, slot->data, logical_block_bytes, command_blocks, 0, 0, 0, 0, ended,
                                      slot);
        break;
    case UNMAP:
        task = iscsi_unmap_task(iscsi, lun, 0, 0, &range, 1, ended, slot);
        break;
    case ATS:
        /* What is expected is what was written last. */
        memcpy(slot->data, slot->data + logical_block_bytes, logical_block_bytes);
        put(slot->data + logical_block_bytes, commands + 1, 8);
        task = iscsi_compareandwrite_task(iscsi, lun, slot->address, slot->data, 2 * logical_block_bytes, size, 0, 0, 0, 0, 0, ended,
                                          slot);
        break;
    }
    if (!task)
        fail("cannot send", iscsi_get_error(iscsi));
    slot->started = now();
    in_flight++;
}

static double percentile(double share) {
    uint64_t left = (uint64_t)((double)commands * share);
    int at = 0;
    while (at < TIME_STEPS && times[at] <= left)
        left -= times[at++];
    return at * 1e-5;
}

static void run(void) {
    struct pollfd polled[MOST_SESSIONS];
    while (in_flight > 0) {
        for (int i = 0; i < end_count; i++)
            polled[i] = (struct pollfd){.fd = iscsi_get_fd(ends[i].iscsi), .events = (short)iscsi_which_events(ends[i].iscsi)};
        if (poll(polled, (nfds_t)end_count, 120000) <= 0)
            fail("poll", "no answer for 120 s");
        for (int i = 0; i < end_count; i++)
            if (polled[i].revents && iscsi_service(ends[i].iscsi, polled[i].revents) < 0)
                fail("the session broke", iscsi_get_error(ends[i].iscsi));
    }
}

static unsigned char *noise(size_t bytes) {
    unsigned char *data = malloc(bytes);
    FILE *random = fopen("/dev/urandom", "r");
    if (!data || !random || fread(data, 1, bytes, random) != bytes)
        fail("/dev/urandom", "cannot be read");
    fclose(random);
    return data;
}

static int start_ats(const char *url, double seconds, int sessions) {
    for (int i = 0; i < sessions; i++)
        log_in(url);
    command_blocks = 1;
    deadline = now() + seconds;
    double started = now();
    for (int i = 0; i < sessions; i++) {
        struct slot *slot = calloc(1, sizeof *slot);
        slot->end = &ends[i];
        slot->address = (uint64_t)i * 64;
        slot->data = calloc(2, logical_block_bytes);
        struct scsi_task *task = iscsi_read16_sync(ends[i].iscsi, ends[i].lun, slot->address, logical_block_bytes,
                                                   (int)logical_block_bytes, 0, 0, 0, 0, 0);
        if (!task || task->status != SCSI_STATUS_GOOD)
            fail("READ", iscsi_get_error(ends[i].iscsi));
        memcpy(slot->data + logical_block_bytes, task->datain.data, logical_block_bytes);
        scsi_free_scsi_task(task);
        start(slot);
    }
    run();
    printf("{\"commands\": %llu, \"seconds\": %.6f, \"p50_s\": %.5f, \"p99_s\": %.5f, \"longest_s\": %.5f}\n",
           (unsigned long long)commands, now() - started, percentile(0.5), percentile(0.99), longest);
    return 0;
}

int main(int count, char **words) {
    for (job = COPY; count > 1 && job <= ATS && strcmp(words[1], jobs[job]); job++)
        ;
    if (count == 6 && job == ATS)
        return start_ats(words[3], atof(words[4]), atoi(words[5]));
    if ((count != 7 && count != 9) || job >= ATS)
        fail("usage", "see offload.c");
    int two = job == COPY || job == XCOPY;
    if (two)
        log_in(words[2]);
    log_in(words[3]);
    uint64_t length = strtoull(words[4], NULL, 10), bytes = strtoull(words[5], NULL, 10);
    int depth = atoi(words[6]);
    command_blocks = (uint32_t)(bytes / logical_block_bytes);
    end_block = length / logical_block_bytes;
    run_blocks = stride_blocks = end_block;
    if (count == 9) {
        run_blocks = strtoull(words[7], NULL, 10) / logical_block_bytes;
        stride_blocks = strtoull(words[8], NULL, 10) / logical_block_bytes;
    }
    if (!command_blocks || !end_block || depth < 1 || !run_blocks || run_blocks % command_blocks || stride_blocks < run_blocks)
        fail("usage", "numbers must be positive, runs whole");
    struct slot *slots = calloc((size_t)depth, sizeof *slots);
    size_t room = job == SAME || job == UNMAP || job == XCOPY ? 4096 : command_blocks * (size_t)logical_block_bytes;
    for (int i = 0; i < depth; i++) {
        slots[i].end = &ends[two];
        slots[i].data = job == FILL ? noise(room) : calloc(1, room);
        slots[i].vector = (struct scsi_iovec){.iov_base = slots[i].data, .iov_len = room};
    }
    double started = now();
    for (int i = 0; i < depth; i++)
        start(&slots[i]);
    run();
    printf("{\"bytes\": %llu, \"commands\": %llu, \"seconds\": %.6f}\n", (unsigned long long)done_blocks * logical_block_bytes,
           (unsigned long long)commands, now() - started);
    return 0;
}
