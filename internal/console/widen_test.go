package console_test

import (
	"testing"

	"patchbay/internal/console"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/oidc"
)

// Every action that can widen somebody's rights needs a recently entered password.
func TestWideningAsksForThePassword(t *testing.T) {
	fresh := map[string]bool{}
	o := control.Options{OIDC: oidc.New(oidc.Options{Issuer: "https://auth.example.org"})}
	for _, r := range console.New(console.Options{Control: control.New(o)}).Routes() {
		fresh[r.Pattern] = r.Access == page.Confirmed || r.Access == page.AdminsConfirmed
	}
	for _, pattern := range []string{
		"POST /approvals/{approval}/always", "POST /keys/new", "POST /keys/{key}/rules", "POST /bots/{bot}/key",
		"POST /tools/rules", "POST /tools/sets", "POST /tools/sets/{set}/remove", "POST /tools/{name}/rule",
		"POST /tools/upstreams",
		"POST /tools/upstreams/{upstream}/change", "POST /tools/upstreams/{upstream}/rotate",
		"POST /tools/upstreams/{upstream}/approve",
		"POST /bots", "POST /bots/{bot}/settings", "POST /bots/{bot}/rotate", "GET /bots/{bot}/bind",
		"POST /devices/approve", "POST /devices/{device}/settings",
		"POST /gateway/pairs/{request}/approve", "POST /gateway/nodes/{node}/rename", "POST /gateway/shims",
		"POST /gateway/invite", "POST /gateway/nodes/{node}/policy",
		"POST /gateway/shims/{shim}/change", "POST /gateway/shims/{shim}/accept", "POST /bots/{bot}/accept",
		"POST /settings/people/new", "POST /settings/people/{person}/role", "POST /settings/people/{person}/password",
		"POST /settings/backup/restore", "POST /settings/links", "POST /settings/authenticator",
		"POST /settings/authenticator/codes", "POST /settings/authenticator/remove",
		"POST /settings/people/{person}/second-steps/remove", "GET /settings/passkeys", "POST /settings/passkeys",
		"POST /settings/passkeys/{passkey}/remove",
	} {
		if asks, there := fresh[pattern]; !asks {
			t.Errorf("%s asks for no password (it is there: %t)", pattern, there)
		}
	}
}
