package upstream

import (
	"encoding/json"
	"testing"
)

func TestMapLinks(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`[{"type":"text","text":"\"uri\""}, {"type":"resource_link","uri":"ui://a","x":[1]}]`,
			`[{"type":"text","text":"\"uri\""},{"type":"resource_link","uri":"ui://up/a","x":[1]}]`},
		{`[{"type":"resource","resource":{"uri":"a:b","text":"uri"},"annotations":{"uri":"a:b"}}]`,
			`[{"type":"resource","resource":{"uri":"a:up/b","text":"uri"},"annotations":{"uri":"a:b"}}]`},
		{`[{"type":"hologram","uri":"a:b"}]`, `[{"type":"hologram","uri":"a:b"}]`},
		{`[]`, `[]`},
	} {
		if got := mapContent("up", json.RawMessage(c.in)); string(got) != c.want {
			t.Errorf("%s\n is %s\nwant %s", c.in, got, c.want)
		}
	}
	in := `{"ui":{"visibility":["app"],"resourceUri":"ui://a"},"ui/resourceUri":"ui://b","x":"ui://c"}`
	want := `{"ui":{"visibility":["app"],"resourceUri":"ui://up/a"},"ui/resourceUri":"ui://up/b","x":"ui://c"}`
	if got := mapMeta("up", json.RawMessage(in)); string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
