package hub_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/tool"
)

// TestMessages sends messages to a device. They obey the rules, are in the trail, and are in no
// list.
func TestMessages(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	got := make(chan string, 10)
	desk := providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		got <- c.Tool + " " + string(c.Args)
		return tool.JSON(map[string]bool{"heard": true}), nil
	})
	register(t, r.Hub, hub.ProviderRef{ID: "board:1", Owner: r.Person.ID, Slug: "desk", Kind: "xiaozhi"}, desk,
		tool.Tool{Name: "show"})
	send := func(who hub.Access, provider, message, args string) error {
		c := &tool.Call{}
		if args != "" {
			c.Args = []byte(args)
		}
		_, err := r.Hub.SendMessage(t.Context(), who, provider, message, c)
		return err
	}
	if err := send(access(r, ""), "board:1", hub.MessageNotify, `{"method":"notifications/x"}`); err != nil {
		t.Fatal(err)
	}
	if m := <-got; m != `mcp.notify {"method":"notifications/x"}` {
		t.Error(m)
	}
	if err := send(access(r, ""), "board:1", hub.MessageInitialize, ""); err != nil || <-got != "mcp.initialize {}" {
		t.Error(err)
	}
	stranger := access(r, "")
	stranger.Person = "somebody else"
	for name, c := range map[string]struct {
		who               hub.Access
		provider, message string
		args              string
		want              tool.Code
	}{
		"stranger":   {stranger, "board:1", hub.MessageNotify, `{}`, tool.Offline},
		"no device":  {access(r, ""), "board:2", hub.MessageNotify, `{}`, tool.Offline},
		"no message": {access(r, ""), "board:1", "show", `{}`, tool.Offline},
		"denied":     {access(r, `{"deny":["desk_mcp_*"]}`), "board:1", hub.MessageNotify, `{}`, tool.Denied},
		"no tool":    {access(r, `{"deny":["desk_show"]}`), "board:1", hub.MessageNotify, `{}`, tool.Offline},
		"read only":  {access(r, `{"read_only":true}`), "board:1", hub.MessageNotify, `{}`, tool.Offline},
		"arguments":  {access(r, ""), "board:1", hub.MessageNotify, `[]`, tool.BadArgs},
	} {
		if err := send(c.who, c.provider, c.message, c.args); code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(got) != 0 {
		t.Errorf("the device got %s", <-got)
	}
	v, err := r.Hub.View(r.Person.ID, "")
	if err != nil || strings.Contains(names(v), "mcp") {
		t.Errorf("%s, %v", names(v), err)
	}
	if _, err := r.Hub.Call(t.Context(), access(r, ""), "desk_mcp_notify", &tool.Call{}); code(err) != tool.Unknown {
		t.Errorf("a message is called as a tool: %v", err)
	}
	r.Hub.WaitForCallRecords(t.Context())
	calls, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Hour), 100)
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, c := range calls {
		if c.Tool == "desk_mcp_notify" && c.Provider == "board:1" && c.Outcome == "done" {
			sent++
		}
	}
	if sent != 1 {
		t.Errorf("the trail has %+v", calls)
	}
}
