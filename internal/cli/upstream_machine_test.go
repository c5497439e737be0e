package cli

import (
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/control"
	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
)

// A server to which Patchbay signs in by itself needs no person: it is added, checked and called.
// If the secret is wrong, every place says what to do, and none shows it.
func TestUpstreamByItself(t *testing.T) {
	d := withParrot(t)
	tools, err := sim.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tools.Close() })
	to, err := url.Parse(strings.TrimSuffix(tools.URL, "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	as := signintest.New(t, httputil.NewSingleHostReverseProxy(to))
	as.AddClient("robot", "right and secret")
	add := []string{"upstream", "add", "shop", "--url", as.URL + "/mcp", "--set", "oauth_grant=client_credentials",
		"--set", "client_id=robot", "--set"}
	d.failing(exitFailed, "", append(add, "client_secret=wrong and secret"), "invalid_client", "client_secret")
	if got := d.ok(append(add, "client_secret=right and secret")...); !strings.Contains(got, "shop_get_temperature") &&
		!strings.Contains(got, "tools") {
		t.Errorf("adding it says %q", got)
	}
	d.serve()
	d.awaitTool("shop_get_temperature")
	if got := d.ok("upstream", "show", "shop"); !strings.Contains(got, "signs in by itself at "+as.URL) ||
		strings.Contains(got, "and secret") || strings.Contains(got, "upstream signin") {
		t.Errorf("it is shown as %s", got)
	}
	if got := d.ok("upstream", "signin", "shop"); !strings.Contains(got, "needs no sign-in by you") {
		t.Errorf("signing in says %q", got)
	}
	var state control.UpstreamSignIn
	if d.json(&state, "upstream", "signin", "shop"); !state.Machine || !state.SignedIn {
		t.Errorf("the state is %+v", state)
	}
	if got := d.ok("upstream", "signin", "shop", "--out"); !strings.Contains(got, "signs in again by itself") {
		t.Errorf("forgetting says %q", got)
	}
	d.ok("upstream", "check", "shop")

	d.ok("upstream", "set", "shop", "client_secret=wrong and secret")
	d.until("the wrong secret is noticed", func() bool {
		return strings.Contains(d.ok("upstream", "show", "shop"), "invalid_client")
	})
	got := d.ok("upstream", "show", "shop") + d.do("", "doctor").stdout
	if strings.Count(got, "See whether client_id and client_secret") != 2 || strings.Contains(got, "and secret") ||
		strings.Contains(got, "patchbay upstream signin shop") {
		t.Errorf("with a wrong secret it is shown as %s", got)
	}
	d.ok("upstream", "set", "shop", "client_secret=right and secret")
	d.awaitTool("shop_get_temperature")
}
