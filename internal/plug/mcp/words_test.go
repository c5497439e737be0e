package mcp

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

// wordsClient is a client of the official SDK that sees changes of the list.
type wordsClient struct {
	*sdk.ClientSession
	changed chan struct{}
}

func newWordsClient(t *testing.T, r *rig, key, query, version string) *wordsClient {
	t.Helper()
	c := &wordsClient{changed: make(chan struct{}, 100)}
	client := sdk.NewClient(&sdk.Implementation{Name: "claude", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { c.changed <- struct{}{} }})
	var err error
	if c.ClientSession, err = client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.url + "/mcp" + query,
		HTTPClient: withKey(key)}, &sdk.ClientSessionOptions{ProtocolVersion: version}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// list returns the names that a client gets, and their descriptions.
func (c *wordsClient) list(t *testing.T) (names string, told map[string]string) {
	t.Helper()
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	told = map[string]string{}
	var all []string
	for _, x := range list.Tools {
		all, told[x.Name] = append(all, x.Name), x.Description
	}
	return strings.Join(all, " "), told
}

func (c *wordsClient) call(t *testing.T, name string, args any) string {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "error: " + err.Error()
	}
	text := ""
	for _, x := range res.Content {
		if x, ok := x.(*sdk.TextContent); ok {
			text += x.Text
		}
	}
	return text
}

// waits waits until the list has changed to these names.
func (c *wordsClient) waits(t *testing.T, want string) {
	t.Helper()
	limit := time.After(testTimeout)
	for {
		if got, _ := c.list(t); got == want {
			return
		}
		select {
		case <-c.changed:
		case <-limit:
			got, _ := c.list(t)
			t.Fatalf("the list has %s, want %s", got, want)
		}
	}
}

func saveWords(t *testing.T, r *rig, w store.ToolWords) {
	t.Helper()
	w.Owner, w.Created = r.Person.ID, time.Now()
	if err := r.Store.ToolWordings.Save(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hub.RefreshToolsEverywhere(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Clients of every revision are told that a tool has another name, see it, and can use both.
func TestRenamedTool(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			r.register(t, hub.ProviderRef{ID: "a", Kind: "k", Slug: "home", Owner: r.Person.ID}, providerFunc(echoing),
				tool.Tool{Name: "HassTurnOn", Description: "Turns on."}, tool.Tool{Name: "gate", Dangerous: true})
			narrow := r.addKey(t, "narrow", `{"allow":["home_Hass*"]}`)
			other := r.addKey(t, "other", `{"allow":["lights_*"]}`)
			c, searches := newWordsClient(t, r, narrow, "", version), newWordsClient(t, r, r.key, "?tools=find", version)
			chosen, none := newWordsClient(t, r, r.key, "?tools=lights_on", version), newWordsClient(t, r, other, "", version)
			c.waits(t, "home_HassTurnOn")
			saveWords(t, r, store.ToolWords{Tool: "home_HassTurnOn", Name: "lights_on", Description: "Illuminates a room."})
			c.waits(t, "lights_on")
			if _, told := c.list(t); told["lights_on"] != "Illuminates a room." {
				t.Errorf("%v", told)
			}
			for _, name := range []string{"lights_on", "home_HassTurnOn"} {
				for _, as := range []*wordsClient{c, chosen} {
					if got := as.call(t, name, nil); got != "HassTurnOn" {
						t.Errorf("%s: %s", name, got)
					}
				}
				if got := searches.call(t, callTool, map[string]any{"name": name}); got != "HassTurnOn" {
					t.Errorf("%s: %s", name, got)
				}
				if got := none.call(t, name, nil); !strings.Contains(got, "not allowed here") {
					t.Errorf("a key that may call what is called lights_*: %s", got)
				}
			}
			if got, _ := none.list(t); got != "" {
				t.Errorf("a key that may call what is called lights_* sees %s", got)
			}
			if got := searches.call(t, findTools, map[string]any{"query": "illuminate"}); !strings.Contains(got,
				`"name":"lights_on"`) {
				t.Error(got)
			}
			if err := r.Store.ToolWordings.Remove(t.Context(), r.Person.ID, "home_HassTurnOn"); err != nil {
				t.Fatal(err)
			}
			if err := r.Hub.RefreshTools(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.waits(t, "home_HassTurnOn")
			if got := c.call(t, "lights_on", nil); !strings.Contains(got, "nknown tool") {
				t.Errorf("after the way back: %s", got)
			}
		})
	}
}

// A change on one instance is seen on the others.
func TestRenamedOnAnotherInstance(t *testing.T) {
	db := storetest.Postgres(t)
	here, there := newRig(t, rigOptions{db: db}), newRig(t, rigOptions{db: db})
	for _, r := range []*rig{here, there} {
		if err := r.Hub.OnToolsChanged(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		r.register(t, hub.ProviderRef{ID: "a", Kind: "k", Slug: "home", Owner: here.Person.ID}, providerFunc(echoing),
			tool.Tool{Name: "HassTurnOn"})
	}
	c := newWordsClient(t, there, here.key, "", "2025-11-25")
	c.waits(t, "home_HassTurnOn")
	saveWords(t, here, store.ToolWords{Tool: "home_HassTurnOn", Name: "lights_on"})
	c.waits(t, "lights_on")
	if got := c.call(t, "lights_on", nil); got != "HassTurnOn" {
		t.Error(got)
	}
}

// Hosts find the page of a tool whatever it is called, and the page calls it by its name.
func TestPageOfRenamedTool(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.register(t, hub.ProviderRef{ID: "b", Kind: "xiaozhi", Slug: "kitchen", Owner: r.Person.ID}, providerFunc(echoing),
		tool.Tool{Name: "self.audio_speaker.set_volume"})
	v, err := r.Hub.View(r.Person.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	before := pages{v}.list()
	saveWords(t, r, store.ToolWords{Tool: "kitchen_self_audio_speaker_set_volume", Name: "radio"})
	if v, err = r.Hub.View(r.Person.ID, ""); err != nil {
		t.Fatal(err)
	}
	after := pages{v}.list()
	if len(before) != 1 || len(after) != 1 || before[0].uri != after[0].uri {
		t.Fatalf("%+v %+v", before, after)
	}
	for _, name := range after[0].tools {
		if !slices.Contains([]string{"radio", ""}, name) {
			t.Errorf("the page calls %s", name)
		}
	}
}
