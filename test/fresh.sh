#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fresh.sh ROOT COMMAND... - runs a command in the system below ROOT, with its own root folder, processes and mounts.
#
# Not by chroot: the kernel grants no user namespaces to a process in one, and the judge's cages need them. Needs root,
# and umount in ROOT.
exec unshare --mount --pid --fork sh -c '
root=$1
shift
mount --make-rprivate / && mount --bind "$root" "$root" && cd "$root" && mkdir -p proc sys dev tmp .old &&
    mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys && mount -t tmpfs tmpfs tmp &&
    pivot_root . .old && cd / && umount -l /.old || exit 3
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TERM=dumb "$@"' sh "$@"
