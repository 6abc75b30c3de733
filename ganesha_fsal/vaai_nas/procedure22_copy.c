/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "procedure22_copy.h"

#include <arpa/inet.h>
#include <string.h>

/* Copies opaque<limit> with its length and padding, undecoded. */
static bool procedure22_copy_opaque(XDR *xdrs, uint8_t *bytes, size_t *length, uint32_t limit)
{
    uint32_t size, big_endian;

    if (!XDR_GETUINT32(xdrs, &size) || size > limit)
        return false;
    big_endian = htonl(size);
    memcpy(bytes + *length, &big_endian, sizeof(big_endian));
    *length += sizeof(big_endian);
    size = (size + 3) & ~3u;
    if (!XDR_GETBYTES(xdrs, (char *)bytes + *length, size))
        return false;
    *length += size;
    return true;
}

bool procedure22_copy_call(XDR *xdrs, uint8_t bytes[PROCEDURE22_COPIED_MAX], size_t *length)
{
    uint32_t kind, big_endian;

    *length = 0;
    if (!procedure22_copy_opaque(xdrs, bytes, length, PROCEDURE22_HANDLE_SIZE) || !XDR_GETUINT32(xdrs, &kind))
        return false;
    big_endian = htonl(kind);
    memcpy(bytes + *length, &big_endian, sizeof(big_endian));
    *length += sizeof(big_endian);
    if (kind == PROCEDURE22_NEED_SOURCE && !procedure22_copy_opaque(xdrs, bytes, length, PROCEDURE22_HANDLE_SIZE))
        return false;
    return procedure22_copy_opaque(xdrs, bytes, length, PROCEDURE22_COMMAND_MAX);
}
