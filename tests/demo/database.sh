#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs in the demonstration's machine, when the storage is built: Debian's own PostgreSQL on it, started by systemd, and what it says of itself.
set -eu
test -e /etc/plumbline-lab
version=$(ls /usr/lib/postgresql)
pg_createcluster --datadir /data01/main "$version" main -- --waldir=/data02/main > /dev/null
systemctl start "postgresql@$version-main.service"
cd /
postgres() { runuser -u postgres -- "$@"; }
postgres createdb bench
postgres pgbench --initialize --quiet --scale 1 bench 2> /dev/null
said=$(postgres pgbench --client 4 --time 10 bench 2> /dev/null)
echo "database     $(postgres psql --pset pager=off --no-align --tuples-only --command 'select version()' | cut -d '(' -f 1)"
echo "started by   systemd, as user $(ps -o user= -p "$(systemctl show --property MainPID --value "postgresql@$version-main.service")")"
echo "data, log    $(findmnt --noheadings --output SOURCE --target /data01/main), $(findmnt --noheadings --output SOURCE --target "$(readlink -f /data01/main/pg_wal)")"
echo "pgbench      $(echo "$said" | sed -n 's/^tps = \([0-9]*\).*/\1/p') commits a second, $(echo "$said" | sed -n 's/^number of failed transactions: \([0-9]*\).*/\1/p') of them failed"
echo "/var/lib     $(stat --format 'mode %04a, %U:%G' /var/lib), so that services that are not root's reach their data"
