#!/bin/sh
# $1 is "configure"; $2 is the version that was configured before, if any (Debian Policy 6.5).
set -e

if [ "$1" = configure ]; then
	if ! getent passwd patchbay >/dev/null; then
		useradd --system --user-group --no-create-home --home-dir /var/lib/patchbay \
			--shell /usr/sbin/nologin patchbay
	fi
	if [ ! -e /var/lib/patchbay ]; then
		install -d -o patchbay -g patchbay -m 0700 /var/lib/patchbay
	fi
	if [ -z "$2" ] && [ -e /etc/patchbay/patchbay.yaml ]; then
		chgrp patchbay /etc/patchbay/patchbay.yaml
	fi
fi

case "$1" in
configure | abort-upgrade | abort-deconfigure | abort-remove)
	# Enabled and started, as services of Debian are; what an administrator changed stays.
	if command -v deb-systemd-helper >/dev/null; then
		deb-systemd-helper unmask patchbay.service >/dev/null || true
		if deb-systemd-helper --quiet was-enabled patchbay.service; then
			deb-systemd-helper enable patchbay.service >/dev/null || true
		else
			deb-systemd-helper update-state patchbay.service >/dev/null || true
		fi
	fi
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload >/dev/null || true
		action=start
		if [ -n "$2" ]; then
			action=restart
		fi
		deb-systemd-invoke "$action" patchbay.service >/dev/null || true
	fi
	;;
esac
