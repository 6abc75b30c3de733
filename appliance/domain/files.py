# SPDX-License-Identifier: Apache-2.0
"""Paths of files in an NFS datastore, as requests have them."""

from appliance.domain.errors import InvalidError

LONGEST_PATH = 1023
"""In bytes: the limit of the NFS server's control socket (ganesha_fsal/vaai_nas/files.h)."""
LONGEST_NAME = 255
_ALLOWED = "names with one slash between them, from the datastore on, as in vm/disk-flat.vmdk"


def check_path(field: str, path: str) -> None:
    """Raises InvalidError for a path that could lead elsewhere, or is not the path of a file."""
    try:
        names = path.encode().split(b"/")
    except UnicodeEncodeError as error:
        raise InvalidError(field, "not a text", _ALLOWED) from error
    if path.startswith("/"):
        raise InvalidError(field, "an absolute path", _ALLOWED)
    if any(name in (b".", b"..") for name in names):
        raise InvalidError(field, 'a name is "." or ".."', _ALLOWED)
    if not all(names):
        raise InvalidError(field, "a name is empty", _ALLOWED)
    if len(path.encode()) > LONGEST_PATH or any(len(name) > LONGEST_NAME for name in names):
        raise InvalidError(field, "too long", f"{LONGEST_PATH} bytes at most, {LONGEST_NAME} of one name")
    if any(not character.isprintable() for character in path):
        raise InvalidError(field, "a character can't be shown", _ALLOWED)
