#!/bin/sh
if command -v rc-service >/dev/null; then
	rc-service --ifstarted patchbay restart
fi
exit 0
