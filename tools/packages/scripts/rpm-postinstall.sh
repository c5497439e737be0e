#!/bin/sh
# $1 is the number of installed versions: 1 at the first installation, 2 at an upgrade.
set -e

if ! getent passwd patchbay >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/patchbay \
		--shell /usr/sbin/nologin patchbay
fi
if [ ! -e /var/lib/patchbay ]; then
	install -d -o patchbay -g patchbay -m 0700 /var/lib/patchbay
fi
if [ "$1" = 1 ]; then
	chgrp patchbay /etc/patchbay/patchbay.yaml
fi
# Enabled if the presets of the distribution say so, which usually they do not, and never started.
if command -v systemctl >/dev/null; then
	systemctl daemon-reload >/dev/null 2>&1 || true
	if [ "$1" = 1 ]; then
		systemctl preset patchbay.service >/dev/null 2>&1 || true
	fi
fi
