#!/sbin/openrc-run

name="Patchbay"
description="A hub for glasses, voice boards, agents and tools"
supervisor=supervise-daemon
command=/usr/bin/patchbay
command_args="serve --data /var/lib/patchbay --config /etc/patchbay/patchbay.yaml"
command_user="patchbay:patchbay"
# Ports below 1024, such as 443.
capabilities="^cap_net_bind_service"
output_log=/var/log/patchbay.log
error_log=/var/log/patchbay.log
umask=0077
rc_ulimit="-n 524288"
respawn_delay=2
# Running answers get 20 s to end.
retry="TERM/45/KILL/5"

depend() {
	need net
	after firewall postgresql nats
}

start_pre() {
	checkpath --directory --mode 0700 --owner patchbay:patchbay /var/lib/patchbay
	checkpath --file --mode 0640 --owner patchbay:patchbay /var/log/patchbay.log
	read_environment /etc/patchbay/patchbay.env
}

# Lines are NAME=VALUE, as systemd reads them: the shell must not interpret what is in a password or
# an address. Quotes around a whole value are removed.
read_environment() {
	local line key value
	[ -r "$1" ] || return 0
	while IFS= read -r line || [ -n "$line" ]; do
		key=${line%%=*} value=${line#*=}
		case "$key" in
		"$line" | "" | [0-9]* | *[!A-Za-z0-9_]*) continue ;;
		esac
		case "$value" in
		\"*\" | \'*\') value=${value#?} value=${value%?} ;;
		esac
		export "$key=$value"
	done <"$1"
}
