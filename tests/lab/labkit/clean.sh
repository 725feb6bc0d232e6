#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Takes down whatever stands on the named disks, empties them, and puts the guest's storage settings back.
# With a first argument `all` the host's own files are reset as well; then come the disks' device paths.
[ -e /etc/plumbline-lab ] || { echo 'this is not the lab: /etc/plumbline-lab is missing' >&2; exit 3; }
what=$1; shift

release() {
    local name=$1 upper device mount number rest
    [ -e "/sys/class/block/$name/dev" ] || return 0
    for upper in "/sys/class/block/$name/holders"/*; do
        [ -e "$upper" ] && release "${upper##*/}"
    done
    for upper in "/sys/class/block/$name/$name"*; do
        [ -e "$upper/partition" ] && release "${upper##*/}"
    done
    [ -e "/sys/class/block/$name/dev" ] || return 0
    read -r device < "/sys/class/block/$name/dev"
    while read -r mount; do umount "$mount" || umount -l "$mount"; done \
        < <(while read -r _ _ number _ mount rest; do [ "$number" = "$device" ] && printf '%b\n' "$mount"; done < /proc/self/mountinfo | tac)
    grep -q "^/dev/$name " /proc/swaps && swapoff "/dev/$name"
    case $name in
        dm-*) dmsetup remove --force --retry "$(cat "/sys/class/block/$name/dm/name")" ;;
        md*) mdadm --quiet --stop "/dev/$name" ;;
        loop*) losetup --detach "/dev/$name" ;;
        bcache*) echo 1 > "/sys/class/block/$name/bcache/stop" ;;
    esac
    return 0
}

if [ "$what" = all ]; then
    cmp -s /etc/fstab.lab /etc/fstab || { cp /etc/fstab.lab /etc/fstab; reload=yes; }
    compgen -G '/etc/systemd/system/*.d/50-plumbline-*.conf' > /dev/null && { rm -rf /etc/systemd/system/*.d/50-plumbline-*.conf; reload=yes; }
fi
if [ "$what" = all ] && compgen -G '/etc/*/*/*plumbline-write-cache*' > /dev/null; then
    systemctl disable --quiet --now plumbline-write-cache.service 2>/dev/null
    rm -rf /etc/systemd/system/plumbline-write-cache.* /etc/udev/rules.d/*-plumbline-write-cache.rules /etc/plumbline
    udevadm control --reload
    reload=yes
fi
# Sets $written: which disk it is, and how many sectors of it were written and discarded so far, by the kernel's own count.
count_written() {
    local number writes discards
    read -r _ _ _ _ _ _ writes _ _ _ _ _ _ discards _ < "/sys/block/$1/stat"
    read -r number < "/sys/block/$1/diskseq"
    written="$number $writes $discards"
}

# What was cleaned and has not been written to since is clean. Asked of many disks after each test, so that it starts no process.
untouched() {
    local at=/sys/block/$1 before= read_only
    read -r read_only < "$at/ro"
    [ "$read_only" = 0 ] && ! compgen -G "$at/holders/*" > /dev/null && ! compgen -G "$at/$1*/partition" > /dev/null || return 1
    [ -e "/run/plumbline-clean/$1" ] && read -r before < "/run/plumbline-clean/$1"
    count_written "$1"
    [ "$written" = "$before" ]
}

mkdir -p /run/plumbline-clean
sync
for disk in "$@"; do
    [ -L "$disk" ] && disk=$(realpath "$disk")
    name=${disk##*/}
    untouched "$name" && continue
    [ "$(< "/sys/block/$name/ro")" = 0 ] || blockdev --setrw "/dev/$name"
    release "$name"
    for part in "/sys/class/block/$name/$name"*; do
        [ -e "$part/partition" ] && blockdev --setrw "/dev/${part##*/}"
    done
    # Zeros are written by discarding where the disk can do that, and they are there even on a disk whose discards do nothing.
    said=$(blkdiscard --force --zeroout "/dev/$name" 2>&1) || { echo "$said" >&2; exit 1; }
    blockdev --flushbufs "/dev/$name"
    compgen -G "/sys/block/$name/$name*/partition" > /dev/null && partx --delete "/dev/$name" 2>/dev/null
    count_written "$name"
    echo "$written" > "/run/plumbline-clean/$name"
done
if [ "$what" = all ]; then
    rm -rf /etc/lvm/archive/* /etc/lvm/backup/* /etc/lvm/devices/system.devices /run/lvm/pvs_online/* /run/lvm/vgs_online/* /run/lvm/pvs_lookup/*
    rm -rf /var/lib/plumbline /run/plumbline
    if [ -d /pl ]; then chattr -R -i /pl; rm -rf --one-file-system /pl; fi
    [ -z "$reload" ] || systemctl daemon-reload
fi
udevadm settle --timeout=120
exit 0
