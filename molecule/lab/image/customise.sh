#!/bin/sh
# Runs on the host when all packages are in: $1 is the new root, $2 the folder of
# this script, $3 the public key that may log in, $4 the compiled counting-python.
set -eu
root=$1 here=$2 public_key=$3 counter=$4

# The mark that test helpers look for before they touch anything.
echo 'The block devices of this machine may be destroyed.' > "$root/etc/plumbline-lab"

echo plumbline-lab > "$root/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 plumbline-lab\n' > "$root/etc/hosts"
# A set machine id: else every fresh overlay is a first boot, with its presets.
tr -d - < /proc/sys/kernel/random/uuid > "$root/etc/machine-id"
# No fsck pass: the journal replays at mount, and the overlay is expendable.
echo '/dev/vda / ext4 noatime,errors=remount-ro 0 0' > "$root/etc/fstab"
# What `lab.py detach --all` puts back.
cp "$root/etc/fstab" "$root/etc/fstab.lab"

# bcache-tools would register every backing device as soon as it is made; the tests do that where they want it.
mkdir -p "$root/etc/udev/rules.d"
ln -sf /dev/null "$root/etc/udev/rules.d/69-bcache.rules"

# QEMU's user network never changes: one `ip` call instead of a network manager.
cat > "$root/etc/systemd/system/lab-network.service" <<'UNIT'
[Unit]
Description=Static address in QEMU's user network
DefaultDependencies=no
After=systemd-sysctl.service
Before=network.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'ip link set lo up; ip link set eth0 up; ip address replace 10.0.2.15/24 dev eth0; ip route replace default via 10.0.2.2'
[Install]
WantedBy=multi-user.target
UNIT
chroot "$root" systemctl --quiet enable lab-network.service ssh.service

mkdir -p "$root/root/.ssh"
chmod 0700 "$root/root/.ssh"
install -m 0600 "$public_key" "$root/root/.ssh/authorized_keys"
rm -f "$root"/etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -C plumbline-lab -f "$root/etc/ssh/ssh_host_ed25519_key"
# No PAM and one host key: each login costs real time under TCG.
cat > "$root/etc/ssh/sshd_config.d/plumbline-lab.conf" <<'CONF'
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
X11Forwarding no
PrintMotd no
PrintLastLog no
MaxSessions 64
MaxStartups 100
CONF

# Background work that would disturb measurements or delay the boot, and what no test needs.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer man-db.timer \
    e2scrub_all.timer e2scrub_reap.service mdcheck_start.timer mdcheck_continue.timer \
    mdmonitor-oneshot.timer mdmonitor.service smartmontools.service smartd.service \
    nvmefc-boot-connections.service nvmf-autoconnect.service nbd-client.service \
    sg3-utils.service xfs_scrub_all.timer cron.service proc-sys-fs-binfmt_misc.automount systemd-binfmt.service systemd-timesyncd.service \
    prometheus.service prometheus-node-exporter.service prometheus-node-exporter-apt.timer \
    prometheus-node-exporter-ipmitool-sensor.timer prometheus-node-exporter-mellanox-hca-temp.timer \
    prometheus-node-exporter-nvme.timer prometheus-node-exporter-smartmon.timer \
    systemd-networkd-wait-online.service systemd-pstore.service \
    systemd-logind.service systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-random-seed.service \
    lvm2-monitor.service dev-hugepages.mount dev-mqueue.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount \
    getty@tty1.service serial-getty@ttyS0.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# systemd runs every generator at each boot and at each daemon-reload, which is half of the time of one. Only those of fstab and of PostgreSQL's
# clusters have something to do here.
mkdir -p "$root/etc/systemd/system-generators"
for generator in "$root"/lib/systemd/system-generators/*; do
    name=${generator##*/}
    case $name in systemd-fstab-generator | postgresql-generator) continue ;; esac
    ln -sf /dev/null "$root/etc/systemd/system-generators/$name"
done
# Started by the test that is about it.
chroot "$root" systemctl --quiet disable mariadb.service
mkdir -p "$root/etc/systemd/journald.conf.d" "$root/etc/systemd/system.conf.d"
printf '[Journal]\nStorage=volatile\n' > "$root/etc/systemd/journald.conf.d/plumbline-lab.conf"
printf '[Manager]\nDefaultTimeoutStopSec=10s\n' > "$root/etc/systemd/system.conf.d/plumbline-lab.conf"

install -m 0755 "$counter" "$root/usr/local/bin/counting-python"

# A package repository inside the machine, in place of the mirror it came from.
repository=/var/lib/plumbline-packages
mkdir -p "$root$repository"
# shellcheck disable=SC2046
# shellcheck disable=SC2016 # expanded by the shell inside
chroot "$root" sh -ec 'cd "$0"; apt-get download -qq -o APT::Sandbox::User=root "$@"; apt-ftparchive packages . > Packages; gzip -k Packages' \
    "$repository" $(grep -v '^#' "$here/repository.txt")
rm -f "$root/etc/apt/sources.list" "$root"/etc/apt/sources.list.d/*
rm -rf "$root"/var/lib/apt/lists/*
echo "deb [trusted=yes] file:$repository ./" > "$root/etc/apt/sources.list.d/plumbline-lab.list"
chroot "$root" apt-get update -qq -o APT::Sandbox::User=root

rm -f "$root/usr/sbin/policy-rc.d"
