#!/bin/sh
# "rc-update add patchbay" and "rc-service patchbay start" are left to the administrator, as usual.
getent group patchbay >/dev/null || addgroup -S patchbay
getent passwd patchbay >/dev/null ||
	adduser -S -D -H -h /var/lib/patchbay -s /sbin/nologin -G patchbay -g Patchbay patchbay
install -d -o patchbay -g patchbay -m 0700 /var/lib/patchbay
chgrp patchbay /etc/patchbay/patchbay.yaml
exit 0
