package mcp

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// The address or a rule of the key chooses which tools a program sees and can call.
func TestChooseTools(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.register(t, hub.ProviderRef{ID: "home", Kind: "test", Slug: "home"}, providerFunc(echoing),
		tool.Tool{Name: "lamp"}, tool.Tool{Name: "gate"})
	r.register(t, hub.ProviderRef{ID: "car", Kind: "test", Slug: "car"}, providerFunc(echoing), tool.Tool{Name: "start"})
	finds := r.addKey(t, "finds", `{"find_tools":true}`)
	narrow := r.addKey(t, "narrow", `{"allow":["home_*"]}`)
	for _, c := range []struct{ key, query, sees, calls, refused string }{
		{r.key, "", "car_start home_gate home_lamp", "car_start", "nothing"},
		{r.key, "?tools=all", "car_start home_gate home_lamp", "car_start", "find_tools"},
		{r.key, "?tools=home_*", "home_gate home_lamp", "home_lamp", "car_start"},
		{r.key, "?tools=home_gate,car_*", "car_start home_gate", "home_gate", "home_lamp"},
		{r.key, "?tools=none", "", "", "home_lamp"},
		{r.key, "?tools=find,home_*", "call_tool find_tools", "home_lamp", "car_start"},
		{finds, "", "call_tool find_tools", "home_lamp", "nothing"},
		{finds, "?tools=all", "car_start home_gate home_lamp", "home_lamp", "find_tools"},
		{narrow, "?tools=car_*", "", "", "home_lamp"},
		{narrow, "?tools=*_gate", "home_gate", "home_gate", "home_lamp"},
	} {
		header := http.Header{"Authorization": {"Bearer " + c.key}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {statelessVersion}}
		ask := func(method, name string) (status int, body string) {
			header.Set("Mcp-Method", method)
			header.Set("Mcp-Name", name)
			params := `"_meta":{"` + metaVersion + `":"` + statelessVersion + `","` + metaCapabilities + `":{}}`
			if name != "" {
				params += `,"name":"` + name + `"`
			}
			return r.post(t, "/mcp"+c.query, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`, header)
		}
		_, body := ask("tools/list", "")
		var names []string
		for _, name := range []string{"call_tool", "car_start", "find_tools", "home_gate", "home_lamp"} {
			if strings.Contains(body, `"name":"`+name+`"`) {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != c.sees {
			t.Errorf("%s sees %s, want %s", c.query, got, c.sees)
		}
		if c.calls != "" {
			if _, body := ask("tools/call", c.calls); !strings.Contains(body, `"content":[`) || strings.Contains(body, "isError") {
				t.Errorf("%s calls %s: %s", c.query, c.calls, body)
			}
		}
		if _, body := ask("tools/call", c.refused); !strings.Contains(body, "nknown tool") &&
			!strings.Contains(body, "not allowed") {
			t.Errorf("%s calls %s: %s", c.query, c.refused, body)
		}
	}
	header := http.Header{"Authorization": {"Bearer " + r.key}}
	if status, body := r.post(t, "/mcp?tools=a%20b", `{}`, header); status != http.StatusBadRequest ||
		!strings.Contains(body, "tools=") {
		t.Errorf("%d %s", status, body)
	}
}

func echoing(_ context.Context, c *tool.Call) (*tool.Result, error) { return tool.Text(c.Tool), nil }
