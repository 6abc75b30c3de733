/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* procedure22_copy_call() on ntirpc's stream, compared with the codec on the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "../vaai_nas/procedure22_copy.h"
#include "fake_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct procedure22_request whole, copied;
    uint8_t bytes[PROCEDURE22_COPIED_MAX];
    size_t length = 0;
    XDR stream;
    char *copy = malloc(size != 0 ? size : 1); /* of exactly this size: the sanitizer sees reads past the end */

    must(copy != NULL, "no memory");
    memcpy(copy, input, size);
    xdrmem_ncreate(&stream, copy, (u_int)size, XDR_DECODE);
    bool good = procedure22_copy_call(&stream, bytes, &length);
    if (good) {
        must(length <= sizeof(bytes) && length == XDR_GETPOS(&stream), "the length equals the consumed bytes");
        must(memcmp(bytes, input, length) == 0, "the bytes are equal");
    }
    XDR_DESTROY(&stream);
    free(copy);
    memset(&whole, 0, sizeof(whole));
    memset(&copied, 0, sizeof(copied));
    enum procedure22_fault fault = procedure22_decode_request(input, size, &whole);
    if (fault != PROCEDURE22_NO_XDR) {
        must(good && length == size, "a valid call is copied");
        must(procedure22_decode_request(bytes, length, &copied) == fault, "the copy has the same fault");
        must(memcmp(&whole, &copied, sizeof(whole)) == 0, "every field is equal");
    }
    return 0;
}
