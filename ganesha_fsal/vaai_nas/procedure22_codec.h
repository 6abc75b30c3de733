/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * NFSv3 procedure 22 as the public OpenSDS plug-in for ESXi sends it: bytes in, request out; result in, bytes out. Pure: no
 * memory is allocated, nothing is called. Both directions, because `vaai-nas` and the tests need the other one.
 *
 *     args:   opaque destination<64>; enum { NEED_SRC_FH = 0, OTHER = 1 }; if NEED_SRC_FH: opaque source<64>; opaque cmdarg<1024>
 *     result: int32 status (nfsstat3); opaque cmdres<1024>
 *
 * cmdarg and cmdres are C structures of an x86-64 client inside: little-endian, naturally aligned. Everything around them is XDR.
 */

#define PROCEDURE22_NUMBER 22u
#define PROCEDURE22_HANDLE_SIZE 64u /* NFS3_FHSIZE, RFC 1813 2.4 */
#define PROCEDURE22_NAME_SIZE 256u  /* with its NUL */
#define PROCEDURE22_VERSION 1u
#define PROCEDURE22_ARGUMENT_SIZE 296u /* of cmdarg: exactly this, or the call is refused */
#define PROCEDURE22_RESULT_SIZE 80u    /* of cmdres: the client refuses any other */
#define PROCEDURE22_ENCODED_ARGUMENTS_MAX (4u + 64u + 4u + 4u + 64u + 4u + PROCEDURE22_ARGUMENT_SIZE)
#define PROCEDURE22_ENCODED_RESULT_SIZE (4u + 4u + PROCEDURE22_RESULT_SIZE)

enum procedure22_command {
    PROCEDURE22_CLONE_FILE = 1,
    PROCEDURE22_RESERVE_SPACE = 2,
    PROCEDURE22_EXTENDED_STATISTICS = 3,
    PROCEDURE22_CLONE_PROGRESS = 4,
    PROCEDURE22_ABORT_CLONE = 5,
    PROCEDURE22_CLONE_SUPPORTED = 6,
    PROCEDURE22_RESERVE_SUPPORTED = 7,
    PROCEDURE22_STATISTICS_SUPPORTED = 8,
};

enum procedure22_kind { PROCEDURE22_NEED_SOURCE = 0, PROCEDURE22_OTHER = 1 };

/* cmdres.result with a failing nfsstat3; 0: the nfsstat3 says all. For 6 to 8: 0 supported, 1 not. */
enum procedure22_result_code {
    PROCEDURE22_NO_DETAIL = 0,
    PROCEDURE22_NOT_SUPPORTED = 1,
    PROCEDURE22_BUSY = 1003,
    PROCEDURE22_DISK_FULL = 1004,
};

enum procedure22_clone_flag { PROCEDURE22_STARTED = 0, PROCEDURE22_COPYING = 1, PROCEDURE22_COMPLETE = 2 };

struct procedure22_handle {
    uint32_t length; /* at most PROCEDURE22_HANDLE_SIZE */
    uint8_t bytes[PROCEDURE22_HANDLE_SIZE];
};

struct procedure22_request {
    struct procedure22_handle destination;
    enum procedure22_kind kind;
    struct procedure22_handle source; /* with PROCEDURE22_NEED_SOURCE */
    uint64_t version;
    uint32_t command;
    uint32_t clone_flags;             /* bits of VMware's SDK, whose values are not public: nothing is derived from them */
    uint32_t name_length;             /* with its NUL; 0 for no name, and for one without NUL where its length says */
    char name[PROCEDURE22_NAME_SIZE]; /* always ends with NUL after decoding */
};

struct procedure22_result {
    uint32_t status; /* nfsstat3 */
    uint64_t version;
    uint32_t command;
    int32_t result;
    uint64_t total, allocated, unique, reserved; /* bytes */
    uint64_t clone_flag, clone_offset;
    /* In the last two words, which plug-ins do not read: */
    uint64_t as_of;    /* when `unique` was counted: UNIX seconds; 0: unknown */
    bool unique_exact; /* false: `unique` is an upper bound */
};

/* Fault in a call's bytes. */
enum procedure22_fault {
    PROCEDURE22_GOOD = 0,
    PROCEDURE22_NO_XDR,       /* cut short, lengths beyond their bounds: GARBAGE_ARGS (RFC 5531 9) */
    PROCEDURE22_ODD_ARGUMENT, /* well-formed XDR, but cmdarg has another length */
    PROCEDURE22_ODD_VERSION,  /* a version other than 1 */
};

/*
 * Decodes a call. For ODD_ARGUMENT the handles are decoded; for ODD_VERSION `version` and `command` are, too. Bytes after
 * the arguments are refused as NO_XDR.
 */
enum procedure22_fault procedure22_decode_request(const uint8_t *bytes, size_t length, struct procedure22_request *request);

/* Encodes a call into PROCEDURE22_ENCODED_ARGUMENTS_MAX bytes at most; returns their number. */
size_t procedure22_encode_request(const struct procedure22_request *request, uint8_t *bytes);

void procedure22_encode_result(const struct procedure22_result *result, uint8_t bytes[PROCEDURE22_ENCODED_RESULT_SIZE]);

/* false for anything but a result of exactly that shape. */
bool procedure22_decode_result(const uint8_t *bytes, size_t length, struct procedure22_result *result);
