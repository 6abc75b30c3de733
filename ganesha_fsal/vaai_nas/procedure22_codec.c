/* SPDX-License-Identifier: Apache-2.0 */
#include "procedure22_codec.h"

#include <endian.h>
#include <string.h>

/* Offsets in the two C structures, as an x86-64 compiler arranges them. */
enum {
    ARGUMENT_VERSION = 0,
    ARGUMENT_COMMAND = 8,
    ARGUMENT_CLONE_FLAGS = 16,
    ARGUMENT_NAME_LENGTH = 20,
    ARGUMENT_NAME = 24,
    RESULT_VERSION = 0,
    RESULT_COMMAND = 8,
    RESULT_RESULT = 12,
    RESULT_TOTAL = 16,
    RESULT_ALLOCATED = 24,
    RESULT_UNIQUE = 32,
    RESULT_RESERVED = 40,
    RESULT_CLONE_FLAG = 48,
    RESULT_CLONE_OFFSET = 56,
    RESULT_AS_OF = 64,
    RESULT_FLAGS = 72,
};

#define FLAG_UNIQUE_EXACT 1u /* of RESULT_FLAGS */

static uint32_t procedure22_get_le32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return le32toh(value);
}

static uint64_t procedure22_get_le64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof(value));
    return le64toh(value);
}

static void procedure22_put_le32(uint8_t *bytes, uint32_t value)
{
    value = htole32(value);
    memcpy(bytes, &value, sizeof(value));
}

static void procedure22_put_le64(uint8_t *bytes, uint64_t value)
{
    value = htole64(value);
    memcpy(bytes, &value, sizeof(value));
}

/* A position in XDR bytes (RFC 4506), which never moves past their end. */
struct reader {
    const uint8_t *bytes;
    size_t left;
};

static bool procedure22_read_uint32(struct reader *reader, uint32_t *value)
{
    uint32_t big_endian;
    if (reader->left < sizeof(big_endian))
        return false;
    memcpy(&big_endian, reader->bytes, sizeof(big_endian));
    *value = be32toh(big_endian);
    reader->bytes += sizeof(big_endian);
    reader->left -= sizeof(big_endian);
    return true;
}

/* opaque<limit>: *bytes points into the input. */
static bool procedure22_read_opaque(struct reader *reader, uint32_t limit, const uint8_t **bytes, uint32_t *length)
{
    if (!procedure22_read_uint32(reader, length) || *length > limit)
        return false;
    size_t padded = ((size_t)*length + 3) & ~(size_t)3;
    if (reader->left < padded)
        return false;
    *bytes = reader->bytes;
    reader->bytes += padded;
    reader->left -= padded;
    return true;
}

static bool procedure22_read_handle(struct reader *reader, struct procedure22_handle *handle)
{
    const uint8_t *bytes;
    if (!procedure22_read_opaque(reader, PROCEDURE22_HANDLE_SIZE, &bytes, &handle->length))
        return false;
    memcpy(handle->bytes, bytes, handle->length);
    return true;
}

static uint8_t *procedure22_write_uint32(uint8_t *bytes, uint32_t value)
{
    value = htobe32(value);
    memcpy(bytes, &value, sizeof(value));
    return bytes + sizeof(value);
}

static uint8_t *procedure22_write_handle(uint8_t *bytes, const struct procedure22_handle *handle)
{
    size_t padded = ((size_t)handle->length + 3) & ~(size_t)3;
    bytes = procedure22_write_uint32(bytes, handle->length);
    memset(bytes, 0, padded);
    memcpy(bytes, handle->bytes, handle->length);
    return bytes + padded;
}

static enum procedure22_fault procedure22_decode_argument(const uint8_t *bytes, struct procedure22_request *request)
{
    request->version = procedure22_get_le64(bytes + ARGUMENT_VERSION);
    request->command = procedure22_get_le32(bytes + ARGUMENT_COMMAND);
    if (request->version != PROCEDURE22_VERSION)
        return PROCEDURE22_ODD_VERSION;
    request->clone_flags = procedure22_get_le32(bytes + ARGUMENT_CLONE_FLAGS);
    uint32_t name_length = procedure22_get_le32(bytes + ARGUMENT_NAME_LENGTH);
    const uint8_t *name = bytes + ARGUMENT_NAME;
    /* A plug-in sends an unusable name with a full clone of a long path. The destination's handle is sufficient. */
    if (name_length == 0 || name_length > PROCEDURE22_NAME_SIZE || memchr(name, 0, name_length) != name + name_length - 1)
        return PROCEDURE22_GOOD;
    request->name_length = name_length;
    memcpy(request->name, name, name_length);
    return PROCEDURE22_GOOD;
}

enum procedure22_fault procedure22_decode_request(const uint8_t *bytes, size_t length, struct procedure22_request *request)
{
    struct reader reader = {bytes, length};
    const uint8_t *argument;
    uint32_t kind, argument_length;

    memset(request, 0, sizeof(*request));
    if (!procedure22_read_handle(&reader, &request->destination) || !procedure22_read_uint32(&reader, &kind) ||
        kind > PROCEDURE22_OTHER)
        return PROCEDURE22_NO_XDR;
    request->kind = (enum procedure22_kind)kind;
    if (request->kind == PROCEDURE22_NEED_SOURCE && !procedure22_read_handle(&reader, &request->source))
        return PROCEDURE22_NO_XDR;
    if (!procedure22_read_opaque(&reader, 1024, &argument, &argument_length) || reader.left != 0)
        return PROCEDURE22_NO_XDR;
    if (argument_length != PROCEDURE22_ARGUMENT_SIZE)
        return PROCEDURE22_ODD_ARGUMENT;
    return procedure22_decode_argument(argument, request);
}

size_t procedure22_encode_request(const struct procedure22_request *request, uint8_t *bytes)
{
    uint8_t *end = procedure22_write_handle(bytes, &request->destination);
    end = procedure22_write_uint32(end, (uint32_t)request->kind);
    if (request->kind == PROCEDURE22_NEED_SOURCE)
        end = procedure22_write_handle(end, &request->source);
    end = procedure22_write_uint32(end, PROCEDURE22_ARGUMENT_SIZE);
    memset(end, 0, PROCEDURE22_ARGUMENT_SIZE);
    procedure22_put_le64(end + ARGUMENT_VERSION, request->version);
    procedure22_put_le32(end + ARGUMENT_COMMAND, request->command);
    procedure22_put_le32(end + ARGUMENT_CLONE_FLAGS, request->clone_flags);
    procedure22_put_le32(end + ARGUMENT_NAME_LENGTH, request->name_length);
    memcpy(end + ARGUMENT_NAME, request->name, PROCEDURE22_NAME_SIZE);
    return (size_t)(end + PROCEDURE22_ARGUMENT_SIZE - bytes);
}

void procedure22_encode_result(const struct procedure22_result *result, uint8_t bytes[PROCEDURE22_ENCODED_RESULT_SIZE])
{
    uint8_t *structure = procedure22_write_uint32(procedure22_write_uint32(bytes, result->status), PROCEDURE22_RESULT_SIZE);
    memset(structure, 0, PROCEDURE22_RESULT_SIZE);
    procedure22_put_le64(structure + RESULT_VERSION, result->version);
    procedure22_put_le32(structure + RESULT_COMMAND, result->command);
    procedure22_put_le32(structure + RESULT_RESULT, (uint32_t)result->result);
    procedure22_put_le64(structure + RESULT_TOTAL, result->total);
    procedure22_put_le64(structure + RESULT_ALLOCATED, result->allocated);
    procedure22_put_le64(structure + RESULT_UNIQUE, result->unique);
    procedure22_put_le64(structure + RESULT_RESERVED, result->reserved);
    procedure22_put_le64(structure + RESULT_CLONE_FLAG, result->clone_flag);
    procedure22_put_le64(structure + RESULT_CLONE_OFFSET, result->clone_offset);
    procedure22_put_le64(structure + RESULT_AS_OF, result->as_of);
    procedure22_put_le64(structure + RESULT_FLAGS, result->unique_exact ? FLAG_UNIQUE_EXACT : 0);
}

bool procedure22_decode_result(const uint8_t *bytes, size_t length, struct procedure22_result *result)
{
    struct reader reader = {bytes, length};
    const uint8_t *structure;
    uint32_t structure_length;

    memset(result, 0, sizeof(*result));
    if (!procedure22_read_uint32(&reader, &result->status) ||
        !procedure22_read_opaque(&reader, 1024, &structure, &structure_length) || reader.left != 0 ||
        structure_length != PROCEDURE22_RESULT_SIZE)
        return false;
    result->version = procedure22_get_le64(structure + RESULT_VERSION);
    result->command = procedure22_get_le32(structure + RESULT_COMMAND);
    result->result = (int32_t)procedure22_get_le32(structure + RESULT_RESULT);
    result->total = procedure22_get_le64(structure + RESULT_TOTAL);
    result->allocated = procedure22_get_le64(structure + RESULT_ALLOCATED);
    result->unique = procedure22_get_le64(structure + RESULT_UNIQUE);
    result->reserved = procedure22_get_le64(structure + RESULT_RESERVED);
    result->clone_flag = procedure22_get_le64(structure + RESULT_CLONE_FLAG);
    result->clone_offset = procedure22_get_le64(structure + RESULT_CLONE_OFFSET);
    result->as_of = procedure22_get_le64(structure + RESULT_AS_OF);
    result->unique_exact = (procedure22_get_le64(structure + RESULT_FLAGS) & FLAG_UNIQUE_EXACT) != 0;
    return true;
}
