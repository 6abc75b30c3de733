/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef FUZZ_FAKE_SERVER_H
#define FUZZ_FAKE_SERVER_H

#include "../vaai_nas/service.h"

/*
 * What the interfaces are fuzzed against: the service itself, with an NFS server and file operations that are made up and quick. A handle is
 * one byte: 0 to 99 are files of one export, 100 to 199 of another that is read-only from 150 on, 200 and 201 directories of the
 * first, 202 one of the second; others are stale. Of files below 20 only attributes may be read. Every fifth source can't be cloned, each time
 * for another reason.
 */

extern const struct vaai_nas_caller fake_caller;

/* A new service: nothing is left of the input before. */
struct vaai_nas_service *fake_service_begin(void);

/* Aborts, for libFuzzer to see it, where a file was not closed. */
void fake_service_end(struct vaai_nas_service *service);

/* Aborts unless `holds`. */
void must(bool holds, const char *what);

/* The next call of an input: two bytes of length, little-endian, and so many bytes, or what is left. false at the end. */
bool next_call(const uint8_t **input, size_t *left, const uint8_t **call, size_t *length);

#endif
