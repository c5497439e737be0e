package remote

import (
	"strings"
	"testing"

	"patchbay/internal/tool"
)

// Capabilities of callers reach the board, but photos keep going where Start has said.
func TestInitialize(t *testing.T) {
	r := newRig(t, Options{}, fw24.answer)
	if _, err := r.Start(t.Context(), Vision{URL: "http://h:1/v"}); err != nil {
		t.Fatal(err)
	}
	const evil = `{"url":"http://evil/"}`
	res, err := r.Initialize(t.Context(), []byte(`{"arms":2,"vision":`+evil+`,"VISION":`+evil+
		`,"vision\u0000":`+evil+`,"\u0076ision":5,"legs":{"n":[1]}}`))
	if err != nil || !strings.Contains(string(res.Structured), `"serverInfo":{"name":"lichuang-dev","version":"2.4.2"`) {
		t.Fatal(res, err)
	}
	if p := r.last().params; !strings.Contains(p,
		`"capabilities":{"vision":{"url":"http://h:1/v"},"arms":2,"legs":{"n":[1]}}`) {
		t.Error(p)
	}
	again, err := r.Initialize(t.Context(), []byte(`{"arms":2,"legs":{"n":[1]}}`))
	if err != nil || string(again.Structured) != string(res.Structured) ||
		r.methods() != "initialize tools/list initialize" {
		t.Errorf("equal capabilities were sent again: %s, %v", r.methods(), err)
	}
	if _, err := r.Initialize(t.Context(), nil); err != nil || !strings.Contains(r.last().params,
		`"capabilities":{"vision":`) {
		t.Error(r.last().params, err)
	}
	long := []byte(`{"x":"` + strings.Repeat("x", maxCallArgs) + `"}`)
	if _, err := r.Initialize(t.Context(), long); tool.AsError(err).Code != tool.BadArgs {
		t.Error(err)
	}
	r.Close(nil)
	if _, err := r.Initialize(t.Context(), []byte(`{"a":1}`)); tool.AsError(err).Code != tool.Offline {
		t.Error(err)
	}
}

func TestNotify(t *testing.T) {
	var got []string
	c := New(Options{Send: func(payload []byte) error {
		got = append(got, string(payload))
		return nil
	}})
	for _, bad := range [][2]string{
		{"tools/call", `{}`}, {"", `{}`}, {"notifications/x", `[]`}, {"notifications/" + strings.Repeat("x", 200), ``},
		{"notifications/x", `{"x":[[[[[[[[[[1]]]]]]]]]]}`},
		{"notifications/x", `{"x":"` + strings.Repeat("x", maxCallArgs) + `"}`},
	} {
		if err := c.Notify(bad[0], []byte(bad[1])); err == nil || tool.AsError(err).Code != tool.BadArgs {
			t.Errorf("%.40s: %v", bad[0], err)
		}
	}
	if err := c.Notify("notifications/x", []byte(`{"on":true}`)); err != nil {
		t.Error(err)
	}
	if err := c.Notify("notifications/y", nil); err != nil {
		t.Error(err)
	}
	want := `{"jsonrpc":"2.0","method":"notifications/x","params":{"on":true}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/y"}`
	if strings.Join(got, "\n") != want {
		t.Error(got)
	}
	c.Close(nil)
	if err := c.Notify("notifications/x", nil); err == nil || tool.AsError(err).Code != tool.Offline {
		t.Error(err)
	}
}
