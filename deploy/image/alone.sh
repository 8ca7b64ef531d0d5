#!/usr/bin/env bash
# Runs a command whose podman has a place of its own: images stay in build/images, and all else ends
# with the command: containers, mounts, and with --offline a network where every port is free.
# Root alone has to be kept apart; a user's podman runs as it is.
# usage: alone.sh [--offline] COMMAND...
set -euo pipefail
network=()
if [ "$1" = --offline ]; then network=(--net) && shift; fi
if [ "$(id -u)" != 0 ]; then exec "$@"; fi
if [ -z "${ALONE:-}" ]; then
    export ALONE="${network[*]:-online}"
    exec unshare --mount --pid --fork --kill-child --mount-proc "${network[@]}" "$0" "$@"
fi
if [ "$ALONE" = --net ]; then ip link set lo up; fi
# crun takes control groups of one version, not of both.
umount /sys/fs/cgroup/unified 2>/dev/null || true
mkdir -p build/images /var/lib/containers
mount --bind build/images /var/lib/containers
for folder in /dev/shm /run/containers /run/crun /run/libpod /run/netns; do
    mkdir -p "$folder"
    mount -t tmpfs tmpfs "$folder"
done
# Nothing of systemd's, which is outside. A root without CAP_SYS_RESOURCE cannot give what podman gives.
cat > /run/containers/alone.conf << END
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=$(ulimit -Hu):$(ulimit -Hu)"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
END
export CONTAINERS_CONF=/run/containers/alone.conf
# What a killed run has left in build/images.
podman rm --all --force > /dev/null
"$@"
