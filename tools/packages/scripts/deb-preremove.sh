#!/bin/sh
# $1 is "remove", or "upgrade": then the old program runs until the new one is configured.
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	deb-systemd-invoke stop patchbay.service >/dev/null || true
fi
