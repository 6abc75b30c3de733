/* SPDX-License-Identifier: Apache-2.0 */
/* Load on an iSCSI LUN by libiscsi: many sessions, one thread.
 *
 * usage: load URL SESSIONS DEPTH BLOCK_BYTES read|write random|sequential SECONDS
 * Sequential load leaves the first MiB alone, where `offload ats` has its blocks.
 * Prints one line of JSON: I/Os, seconds, the client's own CPU seconds, and latency percentiles in microseconds.
 * Ends with 1 and a message when a command fails. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

/* Latencies up to a second in steps of a microsecond; longer ones count as that. */
#define LONGEST_US 1000000

struct session;

struct slot {
    struct session *session;
    unsigned char *data;
    struct scsi_iovec vector;
    double started;
};

struct session {
    struct iscsi_context *iscsi;
    int lun;
    uint64_t next;
    struct slot *slots;
};

static uint32_t latencies[LONGEST_US + 1];
static uint32_t logical_block_bytes;
static uint64_t blocks, done;
static uint32_t block_bytes;
static int writing, is_random, in_flight;
static double deadline;
static uint64_t random_state = 88172645463325252u;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

/* xorshift64: the offsets of a run are the same every time. */
static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void start(struct slot *slot);

static void ended(struct iscsi_context *iscsi, int status, void *command_data, void *private_data) {
    struct scsi_task *task = command_data;
    struct slot *slot = private_data;
    if (status != SCSI_STATUS_GOOD)
        fail("a command failed", iscsi_get_error(iscsi));
    scsi_free_scsi_task(task);
    double at = now(), microseconds = (at - slot->started) * 1e6;
    in_flight--;
    if (at > deadline)
        return;
    latencies[microseconds < LONGEST_US ? (int)microseconds : LONGEST_US]++;
    done++;
    start(slot);
}

static void start(struct slot *slot) {
    struct session *session = slot->session;
    uint64_t count = blocks * logical_block_bytes / block_bytes;
    uint64_t left_alone = ((1 << 20) + block_bytes - 1) / block_bytes;
    uint64_t number = is_random ? next_random() % count : left_alone + session->next++ % (count - left_alone);
    uint64_t address = number * (block_bytes / logical_block_bytes);
    struct scsi_task *task = writing
        ? iscsi_write16_iov_task(session->iscsi, session->lun, address, NULL, block_bytes, logical_block_bytes, 0, 0, 0, 0, 0,
                                 ended, slot, &slot->vector, 1)
        : iscsi_read16_iov_task(session->iscsi, session->lun, address, block_bytes, logical_block_bytes, 0, 0, 0, 0, 0, ended,
                                slot, &slot->vector, 1);
    if (!task)
        fail("cannot send", iscsi_get_error(session->iscsi));
    slot->started = now();
    in_flight++;
}

static void log_in(struct session *session, const char *text, int number) {
    char name[128];
    snprintf(name, sizeof name, "iqn.2026-11.example.zvaai:load-%d", number);
    session->iscsi = iscsi_create_context(name);
    struct iscsi_url *url = session->iscsi ? iscsi_parse_full_url(session->iscsi, text) : NULL;
    if (!url)
        fail(text, "no URL of a LUN");
    iscsi_set_session_type(session->iscsi, ISCSI_SESSION_NORMAL);
    iscsi_set_header_digest(session->iscsi, ISCSI_HEADER_DIGEST_NONE);
    iscsi_set_targetname(session->iscsi, url->target);
    if (iscsi_full_connect_sync(session->iscsi, url->portal, url->lun))
        fail(url->portal, iscsi_get_error(session->iscsi));
    session->lun = url->lun;
    struct scsi_task *task = iscsi_readcapacity16_sync(session->iscsi, url->lun);
    if (!task || task->status != SCSI_STATUS_GOOD)
        fail("READ CAPACITY", iscsi_get_error(session->iscsi));
    struct scsi_readcapacity16 *capacity = scsi_datain_unmarshall(task);
    blocks = capacity->returned_lba + 1;
    logical_block_bytes = capacity->block_length;
    scsi_free_scsi_task(task);
    iscsi_destroy_url(url);
}

static int percentile(double share) {
    uint64_t left = (uint64_t)(done * share);
    int at = 0;
    while (at < LONGEST_US && latencies[at] <= left)
        left -= latencies[at++];
    return at;
}

int main(int count, char **words) {
    if (count != 8)
        fail("usage", "load URL SESSIONS DEPTH BLOCK_BYTES read|write random|sequential SECONDS");
    int session_count = atoi(words[2]), depth = atoi(words[3]);
    block_bytes = (uint32_t)strtoul(words[4], NULL, 10);
    writing = strcmp(words[5], "write") == 0;
    is_random = strcmp(words[6], "random") == 0;
    double seconds = atof(words[7]);
    if (session_count < 1 || depth < 1 || block_bytes < 512 || block_bytes % 512 || seconds <= 0)
        fail("usage", "numbers must be positive, blocks whole");
    struct session *sessions = calloc((size_t)session_count, sizeof *sessions);
    struct pollfd *polled = calloc((size_t)session_count, sizeof *polled);
    for (int i = 0; i < session_count; i++) {
        struct session *session = &sessions[i];
        log_in(session, words[1], i);
        session->next = (uint64_t)i * (blocks * logical_block_bytes / block_bytes) / (uint64_t)session_count;
        session->slots = calloc((size_t)depth, sizeof *session->slots);
        for (int j = 0; j < depth; j++) {
            struct slot *slot = &session->slots[j];
            slot->session = session;
            slot->data = malloc(block_bytes);
            memset(slot->data, 'a' + j % 26, block_bytes);
            slot->vector = (struct scsi_iovec){.iov_base = slot->data, .iov_len = block_bytes};
        }
    }
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    double started = now();
    deadline = started + seconds;
    for (int i = 0; i < session_count; i++)
        for (int j = 0; j < depth; j++)
            start(&sessions[i].slots[j]);
    while (in_flight > 0) {
        for (int i = 0; i < session_count; i++)
            polled[i] = (struct pollfd){.fd = iscsi_get_fd(sessions[i].iscsi),
                                        .events = (short)iscsi_which_events(sessions[i].iscsi)};
        if (poll(polled, (nfds_t)session_count, 10000) <= 0)
            fail("poll", "no answer for 10 s");
        for (int i = 0; i < session_count; i++)
            if (polled[i].revents && iscsi_service(sessions[i].iscsi, polled[i].revents) < 0)
                fail("the session broke", iscsi_get_error(sessions[i].iscsi));
    }
    getrusage(RUSAGE_SELF, &after);
#define SECONDS_OF(time) ((double)(time).tv_sec + (double)(time).tv_usec * 1e-6)
    double cpu = SECONDS_OF(after.ru_utime) + SECONDS_OF(after.ru_stime) - SECONDS_OF(before.ru_utime) - SECONDS_OF(before.ru_stime);
    printf("{\"ios\": %llu, \"seconds\": %.3f, \"client_cpu_seconds\": %.3f, \"p50_us\": %d, \"p99_us\": %d, \"p999_us\": %d}\n",
           (unsigned long long)done, seconds, cpu, percentile(0.5), percentile(0.99), percentile(0.999));
    return 0;
}
