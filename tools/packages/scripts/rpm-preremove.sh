#!/bin/sh
# $1 is the number of versions that stay.
set -e

if [ "$1" = 0 ] && command -v systemctl >/dev/null; then
	systemctl --no-reload disable --now patchbay.service >/dev/null 2>&1 || true
fi
