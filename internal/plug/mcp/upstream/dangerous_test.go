package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"patchbay/internal/tool"
)

// A tool that its server has called destructive stays dangerous, whatever the server says later,
// also after a restart.
func TestHintsMakeToolsNoLessDangerous(t *testing.T) {
	var kept []string
	var broken error
	opt := Options{Dangerous: func(_ context.Context, id string, now []string) ([]string, error) {
		if id != "u1" {
			t.Errorf("it is kept for %q", id)
		}
		if broken != nil {
			return nil, broken
		}
		kept = append(kept, now...)
		return slices.Clone(kept), nil
	}}
	lists := map[string]string{
		"wild":  `{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`,
		"tame":  `{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":false}}`,
		"plain": `{"name":"wipe","inputSchema":{"type":"object"}}`,
		"other": `{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
	}
	r := newRig(t, Settings{URL: "http://127.0.0.1:1/mcp", Transport: HTTP}, nil)
	read := func(u *upstream, name string) tool.Tool {
		t.Helper()
		one, ok := readTool(json.RawMessage(lists[name]))
		if !ok {
			t.Fatal(name)
		}
		c := &catalog{tools: []tool.Tool{one}}
		u.markDangerous(t.Context(), c)
		return c.tools[0]
	}
	for _, o := range []Options{opt, {}} {
		r.m.opt.Dangerous = o.Dangerous
		u := newUpstream(r.m, r.spec)
		for _, step := range []struct {
			list      string
			dangerous bool
		}{{"tame", false}, {"wild", true}, {"tame", true}, {"other", false}, {"plain", true}, {"wild", true}} {
			if got := read(u, step.list); got.Dangerous != step.dangerous || got.Dangerous && got.IsReadOnly() {
				t.Errorf("after %s it is %+v", step.list, got)
			}
		}
	}
	r.m.opt.Dangerous = opt.Dangerous
	if got := read(newUpstream(r.m, r.spec), "tame"); !got.Dangerous || got.IsReadOnly() {
		t.Errorf("after a restart it is %+v", got)
	}
	broken = errors.New("no database")
	u := newUpstream(r.m, r.spec)
	if got := read(u, "other"); !got.Dangerous {
		t.Errorf("while nobody knows it is %+v", got)
	}
	broken = nil
	if got := read(u, "other"); got.Dangerous {
		t.Errorf("when it is known again it is %+v", got)
	}
}
