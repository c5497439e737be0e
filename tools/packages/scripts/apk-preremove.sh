#!/bin/sh
# Data and account stay.
if command -v rc-service >/dev/null; then
	rc-service --ifstarted patchbay stop
	rc-update del patchbay >/dev/null 2>&1
fi
exit 0
