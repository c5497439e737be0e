package console_test

import (
	"testing"

	"patchbay/internal/console"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// Every action that can widen somebody's rights needs a recently entered password.
func TestWideningAsksForThePassword(t *testing.T) {
	fresh := map[string]bool{}
	for _, r := range console.New(console.Options{Control: control.New(control.Options{})}).Routes() {
		fresh[r.Pattern] = r.Access == page.Confirmed || r.Access == page.AdminsConfirmed
	}
	for _, pattern := range []string{
		"POST /keys/new", "POST /keys/{key}/rules", "POST /bots/{bot}/key",
		"POST /tools/rules", "POST /tools/{name}/rule", "POST /tools/upstreams",
		"POST /tools/upstreams/{upstream}/change", "POST /tools/upstreams/{upstream}/rotate",
		"POST /bots", "POST /bots/{bot}/settings", "POST /bots/{bot}/rotate", "GET /bots/{bot}/bind",
		"POST /devices/approve", "POST /devices/{device}/settings",
		"POST /gateway/pairs/{request}/approve", "POST /gateway/nodes/{node}/rename", "POST /gateway/shims",
		"POST /gateway/shims/{shim}/change",
		"POST /settings/people/new", "POST /settings/people/{person}/role", "POST /settings/people/{person}/password",
		"POST /settings/backup/restore",
	} {
		if asks, there := fresh[pattern]; !asks {
			t.Errorf("%s asks for no password (it is there: %t)", pattern, there)
		}
	}
}
