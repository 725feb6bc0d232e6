#!/bin/sh
# Runs on the host when the essential packages are in: $1 is the new root.
# The initrd is made while the kernel is installed, so this has to come first.
set -eu
root=$1
mkdir -p "$root/etc/initramfs-tools/conf.d" "$root/usr/share/initramfs-tools/modules.d"
# MODULES=list: an initrd with every driver costs seconds of unpacking under TCG.
cat > "$root/etc/initramfs-tools/conf.d/plumbline-lab" <<'CONF'
MODULES=list
COMPRESS=lz4
FSTYPE=ext4
RESUME=none
CONF
cat > "$root/usr/share/initramfs-tools/modules.d/plumbline-lab" <<'CONF'
virtio_pci
virtio_blk
virtio_net
virtio_scsi
virtio_rng
sd_mod
nvme
ext4
crc32c_generic
CONF
# A test makes its own cluster, where it wants one.
mkdir -p "$root/etc/postgresql-common/createcluster.d"
echo 'create_main_cluster = false' > "$root/etc/postgresql-common/createcluster.d/plumbline-lab.conf"
# Nothing may start inside the build.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 0755 "$root/usr/sbin/policy-rc.d"
