# SPDX-License-Identifier: Apache-2.0
"""Native properties that the appliance shows and sets, with the allowed values.

From zfsprops(7) and zpoolprops(7) of OpenZFS 2.3. An allow-list: no other property is set.
Sizes are decimal bytes, as `zfs get -p` prints them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto

from appliance.zfs.errors import InvalidName, InvalidProperty
from appliance.zfs.names import MAX_USER_PROPERTY_VALUE_BYTES, is_user_property, user_property_name

MAX_SIZE = 1 << 60
"""Maximum of all sizes: 1 EiB."""
MIN_VOLBLOCKSIZE, MAX_VOLBLOCKSIZE = 512, 16 << 20


class On(Flag):
    FILESYSTEM = auto()
    VOLUME = auto()
    BOTH = FILESYSTEM | VOLUME


_DIGITS = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Native:
    """A native property: kinds of datasets, default, allowed values."""

    on: On
    default: str
    allowed: tuple[str, ...]
    """Values, or a text with the range."""
    accepts: Callable[[str], bool]
    inherited: bool = True


def _choice(on: On, default: str, *values: str) -> Native:
    return Native(on, default, values, frozenset(values).__contains__)


def _size(on: On, *words: str) -> Native:
    def accepts(value: str) -> bool:
        return value in ("none", *words) or (_DIGITS.fullmatch(value) is not None and int(value) <= MAX_SIZE)

    return Native(on, "0", ("none", *words, f"bytes from 0 to {MAX_SIZE}"), accepts, inherited=False)


def _power_of_two(on: On, default: int, smallest: int, largest: int) -> Native:
    def accepts(value: str) -> bool:
        if not _DIGITS.fullmatch(value):
            return False
        number = int(value)
        return smallest <= number <= largest and number & (number - 1) == 0

    return Native(on, str(default), (f"a power of two from {smallest} to {largest}",), accepts)


def _mountpoint(value: str) -> bool:
    if value in {"none", "legacy"}:
        return True
    parts = value.split("/")
    return value.startswith("/") and len(value) <= 1023 and value.isprintable() and not {"", ".", ".."} & set(parts[1:])


_ON_OFF = ("on", "off")
_COMPRESSION = ("on", "off", "lz4", "lzjb", "zle", "gzip", *(f"gzip-{n}" for n in range(1, 10)), "zstd")
_ZSTD = tuple(f"zstd-{n}" for n in range(1, 20)) + ("zstd-fast",) + tuple(f"zstd-fast-{n}" for n in range(1, 11))
_F, _V, _B = On.FILESYSTEM, On.VOLUME, On.BOTH

SETTABLE: Mapping[str, Native] = {
    "atime": _choice(_F, "on", *_ON_OFF),
    "acltype": _choice(_F, "off", "off", "nfsv4", "posix"),
    "canmount": Native(_F, "on", ("on", "off", "noauto"), frozenset(("on", "off", "noauto")).__contains__, inherited=False),
    "checksum": _choice(_B, "on", "on", "fletcher4", "sha256", "sha512", "skein", "edonr", "blake3"),
    "compression": _choice(_B, "on", *_COMPRESSION, *_ZSTD),
    "copies": _choice(_B, "1", "1", "2", "3"),
    "devices": _choice(_F, "on", *_ON_OFF),
    "encryption": Native(_F, "off", ("off",), frozenset(("off",)).__contains__, inherited=False),
    "exec": _choice(_F, "on", *_ON_OFF),
    "mountpoint": Native(_F, "/", ("none", "legacy", "an absolute path"), _mountpoint),
    "quota": _size(_F),
    "readonly": _choice(_B, "off", *_ON_OFF),
    "recordsize": _power_of_two(_F, 131072, 512, 16 << 20),
    "refquota": _size(_F),
    "refreservation": _size(_B, "auto"),
    "reservation": _size(_B),
    "setuid": _choice(_F, "on", *_ON_OFF),
    "sharenfs": _choice(_F, "off", "off"),
    "sharesmb": _choice(_F, "off", "off"),
    "sync": _choice(_B, "standard", "standard", "always", "disabled"),
    "volthreading": Native(_V, "on", _ON_OFF, frozenset(_ON_OFF).__contains__, inherited=False),
    "xattr": _choice(_F, "sa", "on", "off", "sa", "dir"),
}
"""Properties allowed in set_properties and in create operations."""

SHOWN: Mapping[str, Native] = {name: native for name, native in SETTABLE.items() if name != "encryption"} | {
    "dedup": Native(_B, "off", ("what zfsprops(7) names",), lambda _value: False)
}
"""Native properties in Volume.properties and Filesystem.properties, if the kind has them. Encryption has a separate field."""

POOL_SETTABLE: Mapping[str, Native] = {
    "ashift": Native(_B, "0", ("0, or from 9 to 16",), frozenset(("0", *(str(n) for n in range(9, 17)))).__contains__),
    "autoexpand": _choice(_B, "off", *_ON_OFF),
    "autotrim": _choice(_B, "off", *_ON_OFF),
}


def check_user_property(name: str, value: str) -> None:
    """Raises InvalidProperty if ZFS would refuse it, and for bytes that a command line cannot contain."""
    try:
        user_property_name(name)
    except InvalidName as problem:
        raise InvalidProperty(name, value[:100], problem.reason) from None
    if len(value.encode(errors="replace")) > MAX_USER_PROPERTY_VALUE_BYTES:
        raise InvalidProperty(name, value[:100], "too long", (f"{MAX_USER_PROPERTY_VALUE_BYTES} bytes at most",))
    if "\0" in value or not _is_unicode(value):
        raise InvalidProperty(name, value[:100], "not text", ("text without zero bytes",))


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_properties(properties: Mapping[str, str], kind: On) -> None:
    """Raises InvalidProperty for the first property or value that is not allowed on this kind of dataset."""
    for name, value in properties.items():
        if is_user_property(name):
            check_user_property(name, value)
            continue
        native = SETTABLE.get(name)
        if native is None:
            reason = "grow_volume changes it" if name == "volsize" else "not a property that may be set"
            raise InvalidProperty(name[:100], value[:100], reason)
        if not native.on & kind:
            raise InvalidProperty(name, value[:100], f"a {'volume' if kind == On.VOLUME else 'file system'} has no such property")
        if not native.accepts(value):
            raise InvalidProperty(name, value[:100], "not a value it takes", native.allowed)
        if value == "auto" and kind == On.FILESYSTEM:
            raise InvalidProperty(name, value, "only a volume computes its own")


def check_user_properties(properties: Mapping[str, str]) -> None:
    """Checks a snapshot's properties. Raises InvalidProperty."""
    for name, value in properties.items():
        if not is_user_property(name):
            raise InvalidProperty(name[:100], value[:100], "a snapshot takes only user properties")
        check_user_property(name, value)


def check_pool_properties(properties: Mapping[str, str]) -> None:
    """Raises InvalidProperty for the first property that is not allowed on a new pool."""
    for name, value in properties.items():
        native = POOL_SETTABLE.get(name)
        if native is None:
            raise InvalidProperty(name[:100], value[:100], "not a pool property that may be set")
        if not native.accepts(value):
            raise InvalidProperty(name, value[:100], "not a value it takes", native.allowed)


def check_volume_size(volsize: int, volblocksize: int) -> None:
    """Raises InvalidProperty naming volsize or volblocksize."""
    smallest, largest = MIN_VOLBLOCKSIZE, MAX_VOLBLOCKSIZE
    if not smallest <= volblocksize <= largest or volblocksize & (volblocksize - 1):
        raise InvalidProperty(
            "volblocksize", str(volblocksize), "not a size it takes", (f"a power of two from {smallest} to {largest}",)
        )
    if not 0 < volsize <= MAX_SIZE or volsize % volblocksize:
        allowed = f"a multiple of {volblocksize} from {volblocksize} to {MAX_SIZE}"
        raise InvalidProperty("volsize", str(volsize), "not a size it takes", (allowed,))


def thick_refreservation(volsize: int, volblocksize: int) -> int:
    """Estimate of the reservation by `zfs create -V` without raidz: data and metadata, `copies` 1.

    libzfs's zvol_volsize_to_reservation: indirect blocks of 1024 pointers, two copies of them and one of the data, times
    the ratio of allocated to logical size.
    """
    blocks = volsize // volblocksize
    indirect, level = 0, blocks
    while level > 1:
        level = -(-level // _POINTERS_PER_INDIRECT)
        indirect += level
    indirect += 7  # DN_MAX_LEVELS minus one, as libzfs does
    return volsize + indirect * _INDIRECT_BYTES * 2


_POINTERS_PER_INDIRECT = 1024
_INDIRECT_BYTES = 128 << 10
