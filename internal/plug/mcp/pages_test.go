package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/apps"
	"patchbay/internal/tool"
)

// pagesRig has tools with pages: Learn's, those of a board, and those of another server, which
// pretends to be of this one.
func pagesRig(t *testing.T) *rig {
	r := newRig(t, rigOptions{mcp: Options{LearnTools: []string{"next_review", "reveal_answer", "submit_review"}}})
	named := func(names ...string) (list []tool.Tool) {
		for _, name := range names {
			list = append(list, tool.Tool{Name: name, Input: json.RawMessage(`{"type":"object"}`)})
		}
		return list
	}
	echo := providerFunc(nil)
	r.register(t, hub.ProviderRef{ID: "learn", Kind: "learn", Title: "Learn"}, echo,
		named("next_review", "reveal_answer", "submit_review", "list_decks")...)
	r.register(t, hub.ProviderRef{ID: "board:1", Owner: r.Person.ID, Slug: "kitchen", Kind: "xiaozhi",
		Title: "</script>"}, echo,
		named("self.get_device_status", "self.audio_speaker.set_volume", "self.camera.take_photo", "say")...)
	r.register(t, hub.ProviderRef{ID: "upstream:1", Owner: r.Person.ID, Slug: "other", Kind: "upstream"}, echo,
		named("next_review")...)
	return r
}

// ask makes a request in one era, as a client with these capabilities.
func (r *rig) askAs(t *testing.T, path, key, era, capabilities, method, params string) json.RawMessage {
	t.Helper()
	h := http.Header{"Authorization": {"Bearer " + key}, "Accept": {"application/json, text/event-stream"}}
	if era == statelessVersion {
		meta := fmt.Sprintf(`"_meta":{%q:%q,%q:%s}`, metaVersion, era, metaCapabilities, capabilities)
		params = strings.TrimSuffix(strings.TrimSuffix(params, "}")+","+meta+"}", "")
		params = strings.Replace(params, "{,", "{", 1)
		h.Set("Mcp-Protocol-Version", era)
		h.Set("Mcp-Method", method)
		var uri struct {
			URI string `json:"uri"`
		}
		if json.Unmarshal([]byte(params), &uri) == nil && uri.URI != "" {
			h.Set("Mcp-Name", uri.URI)
		}
	} else {
		h.Set("Mcp-Session-Id", r.beginSession(t, path, h, era, capabilities))
	}
	status, body := r.post(t, path, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, h)
	_, event, isEvent := strings.Cut(body, "data: ")
	if isEvent {
		body = event
	}
	var m struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(strings.NewReader(body)).Decode(&m); err != nil {
		t.Fatalf("%s: %d %.300s", method, status, body)
	}
	if m.Error != nil {
		return m.Error
	}
	return m.Result
}

func (r *rig) beginSession(t *testing.T, path string, h http.Header, era, capabilities string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+era+`","capabilities":`+
			capabilities+`,"clientInfo":{"name":"raw","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = h.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	id := resp.Header.Get("Mcp-Session-Id")
	r.server.sessions.mu.Lock()
	defer r.server.sessions.mu.Unlock()
	r.server.sessions.drop(r.server.sessions.all[id]) // as after a restart: the id has what is needed
	return id
}

const showsPages = `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`

// Clients that show pages find their addresses at the tools, and read them; others see nothing of
// them. A page has only the tools that the key may use.
func TestPages(t *testing.T) {
	r := pagesRig(t)
	quiet := r.addKey(t, "quiet", hub.Rules{Deny: []string{"kitchen_*volume", "*_review", "reveal_answer"}}.String())
	for _, era := range []string{"2025-06-18", "2025-11-25", statelessVersion} {
		list := func(key, capabilities, method string) string {
			return string(r.askAs(t, "/mcp", key, era, capabilities, method, "{}"))
		}
		for _, c := range []string{`{}`, `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/other"]}}}`} {
			if got := list(r.key, c, "tools/list") + list(r.key, c, "resources/list"); strings.Contains(got, "ui://") {
				t.Errorf("%s: a client with %s sees pages: %s", era, c, got)
			}
		}
		var tools struct {
			Tools []struct {
				Name string `json:"name"`
				Meta struct {
					UI struct {
						URI string `json:"resourceUri"`
					} `json:"ui"`
				} `json:"_meta"`
			} `json:"tools"`
		}
		if err := json.Unmarshal([]byte(list(r.key, showsPages, "tools/list")), &tools); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, x := range tools.Tools {
			if x.Meta.UI.URI != "" {
				got[x.Name] = x.Meta.UI.URI
			}
		}
		want := map[string]string{"next_review": "ui://patchbay/learn", "reveal_answer": "ui://patchbay/learn",
			"submit_review": "ui://patchbay/learn", "kitchen_self_get_device_status": "ui://patchbay/board/kitchen",
			"kitchen_self_audio_speaker_set_volume": "ui://patchbay/board/kitchen",
			"kitchen_self_camera_take_photo":        "ui://patchbay/camera/kitchen"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the tools have the pages %v, want %v", era, got, want)
		}
		if got := list(r.key, showsPages, "resources/list"); strings.Count(got, `"uri":"ui://`) != 3 || !strings.Contains(got, apps.MIME) {
			t.Errorf("%s: the resources %s", era, got)
		}
		read := func(key, uri string) string {
			return string(r.askAs(t, "/mcp", key, era, showsPages, "resources/read", `{"uri":"`+uri+`"}`))
		}
		if got := read(r.key, "ui://patchbay/learn"); !strings.Contains(got, `"mimeType":"text/html;profile=mcp-app"`) ||
			!strings.Contains(got, `"_meta":{"ui":{"csp":{"connectDomains":[]`) || !strings.Contains(got, "Show the answer") {
			t.Errorf("%s: the card is %.500s", era, got)
		}
		if got := read(quiet, "ui://patchbay/learn"); !strings.Contains(got, "Resource not found") {
			t.Errorf("%s: a key without Learn reads %.300s", era, got)
		}
		if got := read(quiet, "ui://patchbay/board/kitchen"); strings.Contains(got, "set_volume\\\"") ||
			!strings.Contains(got, "kitchen_self_get_device_status") {
			t.Errorf("%s: a key without the volume reads %.300s", era, got)
		}
		if got := read(r.key, "ui://patchbay/board/none"); !strings.Contains(got, "Resource not found") {
			t.Errorf("%s: a board that is none: %.300s", era, got)
		}
	}
}

// The Learn endpoint has its card too, and tells clients that show it that it has resources.
func TestPagesOfLearn(t *testing.T) {
	r := pagesRig(t)
	key := r.Key(t, account.NewKey{Scopes: []string{account.ScopeLearn}})
	for _, era := range []string{"2025-11-25", statelessVersion} {
		got := string(r.askAs(t, "/api/mcp", key, era, showsPages, "resources/list", "{}"))
		if strings.Count(got, `"uri":`) != 1 || !strings.Contains(got, "ui://patchbay/learn") {
			t.Errorf("%s: %s", era, got)
		}
		got = string(r.askAs(t, "/api/mcp", key, era, showsPages, "resources/read", `{"uri":"ui://patchbay/learn"}`))
		if !strings.Contains(got, apps.MIME) {
			t.Errorf("%s: %.300s", era, got)
		}
	}
	got := string(r.askAs(t, "/api/mcp", key, statelessVersion, showsPages, "server/discover", "{}"))
	if !strings.Contains(got, `"resources":{}`) || !strings.Contains(got, `"io.modelcontextprotocol/ui":{}`) {
		t.Errorf("discover: %s", got)
	}
}
