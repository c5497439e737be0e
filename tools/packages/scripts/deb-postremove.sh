#!/bin/sh
# $1 is "remove", or "purge": then data and account go too.
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
	if command -v deb-systemd-helper >/dev/null; then
		deb-systemd-helper purge patchbay.service >/dev/null || true
	fi
	rm -rf /var/lib/patchbay /etc/patchbay || true # a mount point stays, without what was in it
	if getent passwd patchbay >/dev/null; then
		userdel patchbay || true
	fi
fi
