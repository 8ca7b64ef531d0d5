#!/usr/bin/env bash
# Makes sure that podman has the Dockerfile's base: the image that is there or can be pulled, else a
# stand-in of the same name for tests: this machine's Debian, with pyenv's CPython of that version.
# usage: alone.sh base.sh
set -euo pipefail
version=$(sed -n 's/^ARG BASE=python:\([0-9.]*\)-slim$/\1/p' Dockerfile)
name=python:$version-slim
image=docker.io/library/$name
if podman image exists "$image" || podman pull --quiet "$image" 2> /dev/null; then exit; fi

refuse() { echo "base.sh: $name cannot be pulled, and for a stand-in $1" >&2; exit 1; }
python=$(find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -maxdepth 1 -name "$version.*" 2> /dev/null | sort -V | tail -1 || true)
[ -n "$python" ] || refuse "pyenv has no Python $version"
command -v debootstrap > /dev/null || refuse "debootstrap is not installed"
[ "$(id -u)" = 0 ] || refuse "one must be root"
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
[ -e "/usr/share/debootstrap/scripts/$suite" ] || refuse "debootstrap does not know this machine's system"

echo "*** $name cannot be pulled: Debian with $("$python/bin/python3" --version) stands in for it, for tests only ***" >&2
root=$(mktemp -d -p /dev/shm) # in memory, for dpkg waits for the disk after each file
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
debootstrap --variant=minbase "$suite" "$root" > /dev/null
cp -a "$python/." "$root/usr/local"
rm -rf "$root"/usr/local/lib/python*/{test,site-packages/*}
# What Python has been linked with here, but for what Debian has.
find "$python/lib" -name '*.so' ! -name '_tkinter*' -exec ldd {} + | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' | sort -u |
    while read -r library; do [ -e "$root$library" ] || cp -L --parents "$library" "$root"; done
chroot "$root" ldconfig
# A proxy's authorities, where one stands before the package index.
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
tar -C "$root" -c . | podman import --quiet \
    --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' - "$image" > /dev/null
