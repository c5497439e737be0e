#!/bin/sh
# $1 is the number of versions that stay. Data and account stay too: rpm has no purge.
set -e

if command -v systemctl >/dev/null; then
	systemctl daemon-reload >/dev/null 2>&1 || true
	if [ "$1" != 0 ]; then
		systemctl try-restart patchbay.service >/dev/null 2>&1 || true
	fi
fi
