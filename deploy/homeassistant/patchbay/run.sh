#!/bin/sh
# Turns the options of the add-on into settings, and runs the server.
set -eu
options=${OPTIONS:-/data/options.json}

option() { jq -r ".$1 // empty" "$options"; }

export PATCHBAY_DATA="${PATCHBAY_DATA:-/data/patchbay}"
export PATCHBAY_LISTEN=":3000"
PATCHBAY_LANG=$(option lang)
PATCHBAY_LOG_LEVEL=$(option log_level)
PATCHBAY_PUBLIC_URL=$(option public_url)
export PATCHBAY_LANG PATCHBAY_LOG_LEVEL PATCHBAY_PUBLIC_URL

count=$(jq '.settings // [] | length' "$options")
i=0
while [ "$i" -lt "$count" ]; do
  name=$(jq -r ".settings[$i].name" "$options")
  case $name in
    PATCHBAY_*[!A-Z_]* | PATCHBAY_) echo "not a setting: $name" >&2; exit 1 ;;
    PATCHBAY_*) ;;
    *) echo "not a setting: $name" >&2; exit 1 ;;
  esac
  value=$(jq -r ".settings[$i].value" "$options")
  export "$name=$value"
  i=$((i + 1))
done
exec patchbay serve
