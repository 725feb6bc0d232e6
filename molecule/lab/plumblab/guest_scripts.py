# SPDX-License-Identifier: GPL-3.0-or-later
"""Shell that runs in the guest. Each is one round trip: under TCG those are what costs."""

from __future__ import annotations

# Sets $seen to "kernel-name serial" lines. SCSI and SATA serials are in VPD page 0x80, behind four bytes.
_SCAN = r"""
scan() {
    seen=
    for path in /sys/block/nvme* /sys/block/sd*; do
        serial=
        if [ -r "$path/device/serial" ]; then
            read -r serial < "$path/device/serial"
        elif [ -r "$path/device/vpd_pg80" ]; then
            serial=$(tail -c +5 "$path/device/vpd_pg80" | tr -d ' \0')
        else
            continue
        fi
        seen="$seen${path##*/} $serial
"
    done
}
"""

# Arguments: serials that have to be there (each as often as it is named). Prints
# "disk NAME SERIAL" and "link NAME BY-ID" lines.
WAIT_SHOWN = (
    _SCAN
    + r"""
all_there() {
    for want in "$@"; do
        named=0 found=0
        for other in "$@"; do [ "$other" = "$want" ] && named=$((named + 1)); done
        while read -r name serial; do [ "$serial" = "$want" ] && [ -b "/dev/$name" ] && found=$((found + 1)); done <<END
$seen
END
        [ "$found" -ge "$named" ] || return 1
    done
}
turn=0
while scan; ! all_there "$@"; do
    turn=$((turn + 1))
    [ "$turn" -lt 600 ] || { echo "not shown after 120 s; shown are: $seen" >&2; exit 1; }
    sleep 0.2
done
udevadm settle --timeout=120
echo "$seen" | sed -n 's/^\(..*\)/disk \1/p'
find /dev/disk/by-id -type l -printf 'link %l %f\n' | sed 's,link ../../,link ,'
"""
)

# Arguments: serials that have to be gone.
WAIT_GONE = (
    _SCAN
    + r"""
turn=0
while :; do
    scan
    left=
    while read -r name serial; do
        for gone in "$@"; do [ "$serial" = "$gone" ] && left="$left $name"; done
    done <<END
$seen
END
    [ -n "$left" ] || exit 0
    turn=$((turn + 1))
    [ "$turn" -lt 600 ] || { echo "still shown after 120 s:$left" >&2; exit 1; }
    sleep 0.2
done
"""
)

# Arguments: a serial, and the bytes that its disk has to have. The kernel counts sectors of 512 bytes, whatever the disk's own are.
WAIT_SIZE = (
    _SCAN
    + r"""
scan
while read -r name serial; do [ "$serial" = "$1" ] && break; done <<END
$seen
END
[ -n "$name" ] || { echo "no disk shows the serial $1; shown are: $seen" >&2; exit 1; }
turn=0
while read -r sectors < "/sys/block/$name/size"; [ $((sectors * 512)) -ne "$2" ]; do
    turn=$((turn + 1))
    [ "$turn" -lt 600 ] || { echo "/dev/$name still has $((sectors * 512)) B after 120 s, wanted are $2 B" >&2; exit 1; }
    sleep 0.2
done
udevadm settle --timeout=120
"""
)

# First argument: `all` or `some`; then the serials of the disks that are about to
# be pulled. Takes down whatever stands on them; `all` puts the storage settings
# of the image back as well.
RELEASE = (
    _SCAN
    + r"""
which=$1; shift
[ -e /etc/plumbline-lab ] || { echo 'this is not the lab: /etc/plumbline-lab is missing' >&2; exit 1; }
release() {
    local name=$1 upper device mount
    [ -e "/sys/class/block/$name/dev" ] || return 0
    for upper in "/sys/class/block/$name/holders"/*; do
        [ -e "$upper" ] && release "${upper##*/}"
    done
    for upper in "/sys/class/block/$name/$name"*; do
        [ -e "$upper/partition" ] && release "${upper##*/}"
    done
    [ -e "/sys/class/block/$name/dev" ] || return 0
    read -r device < "/sys/class/block/$name/dev"
    while read -r id parent number root mount rest; do
        [ "$number" = "$device" ] && printf '%s\n' "$mount"
    done < /proc/self/mountinfo | sed 's/\\040/ /g' | tac | while read -r mount; do
        umount "$mount" 2>/dev/null || { fuser -kms "$mount" >/dev/null 2>&1; umount "$mount" 2>/dev/null || umount -l "$mount"; }
    done
    grep -q "^/dev/$name " /proc/swaps && swapoff "/dev/$name"
    case $name in
        dm-*) dmsetup remove --force --retry "$(cat "/sys/class/block/$name/dm/name")" ;;
        md*) mdadm --quiet --stop "/dev/$name" ;;
        loop*) losetup --detach "/dev/$name" ;;
    esac
    return 0
}
scan
while read -r name serial; do
    for gone in "$@"; do [ "$serial" = "$gone" ] && release "$name"; done
done <<END
$seen
END
while read -r name serial; do
    for gone in "$@"; do
        [ "$serial" = "$gone" ] || continue
        held=$(ls -d /sys/class/block/"$name"*/holders/* 2>/dev/null)
        [ -z "$held" ] || { echo "disk $name is still held: $held" >&2; exit 1; }
    done
done <<END
$seen
END
if [ "$which" = all ]; then
    rm -rf /etc/lvm/archive/* /etc/lvm/backup/* /etc/lvm/devices/system.devices
    if [ -e /etc/fstab.lab ] && ! cmp -s /etc/fstab.lab /etc/fstab; then
        cp /etc/fstab.lab /etc/fstab
        systemctl daemon-reload
    fi
fi
exit 0
"""
)
