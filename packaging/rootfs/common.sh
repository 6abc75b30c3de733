# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts of packaging/ and tests/; sourced. Sets: repository, scratch, cache, root (the Debian 13 root folder).
# shellcheck shell=bash
umask 022 # web servers read the repository that is made here
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Files of this checkout: logs, guests, and links to its builds.
scratch=$repository/.cache
# What all checkouts of this user share: the root folder, downloads, and builds by the content of what they were made from.
export ZVAAI_CACHE=${ZVAAI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/zvaai}
cache=$ZVAAI_CACHE
root=$cache/rootfs

# Inside the root folder, `enter` runs commands directly.
in_root_folder() { [ -e /.zvaai-rootfs ]; }

# Whether `prepare` made the cache folder, or it is empty: `make clean-cache` empties it, but for the repository's key.
is_cache() { [ -e "$cache/layers" ] || [ -z "$(find "$cache" -mindepth 1 -maxdepth 1 -not -name 'repository-key*' -print -quit 2>/dev/null)" ]; }

say() { printf 'rootfs: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# The packages of the named layers, one a line.
packages() { local layer; for layer; do grep -v '^#' "$repository/packaging/rootfs/packages.$layer"; done; }
# What Debian lacks of a layer, from PyPI; nothing for most layers.
python_requirements() { [ ! -e "$repository/packaging/rootfs/python.$1" ] || grep -v '^#' "$repository/packaging/rootfs/python.$1"; }

# usage: content_key PATH...     a hash of the names and contents of these files and folders of the repository
content_key() {
  (cd "$repository" && find "$@" -type f -not -path '*/node_modules/*' -not -name '*.pyc*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum) |
    sha256sum | cut -c1-20
}

# usage: cached KIND KEY BUILDER...     makes the link .cache/KIND lead to what `BUILDER FOLDER` makes, where KEY names all that it
# is made from. Builds once for all checkouts; a build that is broken off counts as none. Never call it where `set -e` has no effect.
cached() {
  local kind=$1 key=$2 folder lock; shift 2
  folder=$cache/$kind/$key
  mkdir -p "$cache/$kind" "$scratch"
  exec {lock}>>"$cache/$kind.lock"; flock "$lock"
  if [ ! -e "$folder/.complete" ]; then
    rm -rf "$folder"; mkdir "$folder"
    "$@" "$folder"
  fi
  touch "$folder/.complete" # its last use
  [ -L "$scratch/$kind" ] || rm -rf "${scratch:?}/$kind"
  ln -sfn "$folder" "$scratch/$kind"
  # What no checkout has used for a month is built again when one does.
  find "$cache/$kind" -mindepth 2 -maxdepth 2 -name .complete -mtime +30 -printf '%h\0' | xargs -0 -r rm -rf
  exec {lock}>&-
}

# usage: build_tree FOLDER     sets `tree` to a copy of this folder of the repository, locked until the script ends, for builds that
# compile only what has changed. A file whose content is the same keeps its time, whichever checkout it came from.
build_tree() {
  local lock
  tree=$cache/build/$1
  mkdir -p "$tree"
  exec {lock}>>"$tree.lock"; flock "$lock"
  "$repository/packaging/rootfs/enter" rsync --recursive --links --perms --checksum --delete --exclude node_modules "$repository/$1/" "$tree/source/"
}
