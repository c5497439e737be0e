package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/tool"
)

// registerFixtures registers the suite's fixtures as an ordinary provider, without some of the
// tools.
func registerFixtures(t testing.TB, r *rig, without ...string) *mcptest.Fixtures {
	t.Helper()
	var registration *hub.Registration
	rest := func(tools []tool.Tool) []tool.Tool {
		return slices.DeleteFunc(tools, func(t tool.Tool) bool { return slices.Contains(without, t.Name) })
	}
	f := mcptest.New(mcptest.Options{
		ToolsChanged:    func(tools []tool.Tool) { registration.SetTools(rest(tools)) },
		PromptsChanged:  func() { registration.NotifyContentChanged() },
		ResourceUpdated: func(uri string) { registration.NotifyResourceUpdated(uri) },
	})
	registration = r.register(t, hub.ProviderRef{ID: "fixtures", Kind: "fixtures"}, f, rest(f.Tools())...)
	return f
}

// The official conformance suite, in both eras: first directly, then through a proxy that adds a
// key, since the suite cannot.
func TestConformance(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			r := newRig(t, rigOptions{open: true})
			registerFixtures(t, r)
			mcptest.Conformance(t, r.url+"/mcp", revision)
		})
		t.Run(revision+" with a key", func(t *testing.T) {
			r := newRig(t, rigOptions{})
			registerFixtures(t, r)
			mcptest.Conformance(t, mcptest.Proxy(t, r.url, r.key)+"/mcp", revision)
		})
		t.Run(revision+" with a device that connects", func(t *testing.T) {
			r := newRig(t, rigOptions{open: true})
			registerFixtures(t, r, offeredByDevice...)
			dialFixtures(t, r)
			mcptest.Conformance(t, r.url+"/mcp", revision)
		})
	}
}

// offeredByDevice are the tools that a device offers instead: one for each kind of content, an
// error, a schema that must stay unchanged, and one with progress.
var offeredByDevice = []string{
	"test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource",
	"test_multiple_content_types",
	"test_error_handling", "json_schema_2020_12_tool", "test_tool_with_progress",
}

// dialFixtures connects a device that offers its part of the suite's fixtures under their own
// names, as an inbound tool server.
func dialFixtures(t testing.TB, r *rig) {
	t.Helper()
	offered, forget := r.Hub.WatchTools()
	defer forget()
	m := upstream.New(upstream.Options{
		Register: func(s upstream.Spec, p tool.Provider) upstream.Registration {
			registration, err := r.Hub.Register(hub.ProviderRef{ID: s.ID, Kind: "upstream", Title: s.Title, Held: true},
				p)
			if err != nil {
				panic(err)
			}
			return registration
		},
		Logger: logger(t),
	})
	m.Set([]upstream.Spec{{ID: "device", Title: "Device", Version: 1, Inbound: true}})
	channel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := m.Accept(w, req, "device", 1); err != nil {
			t.Error(err)
		}
	}))
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- mcptest.New(mcptest.Options{}).ServeAsDevice(ctx, "ws"+strings.TrimPrefix(channel.URL, "http"),
			offeredByDevice...)
	}()
	t.Cleanup(func() {
		m.Close()
		cancel()
		<-ended
		channel.Close()
	})
	for limit := time.After(testTimeout); ; {
		v, err := r.Hub.View("", "")
		if err != nil {
			t.Fatal(err)
		}
		if o := v.Tool(offeredByDevice[0]); o != nil && o.Provider().ID == "device" {
			break
		}
		select {
		case <-offered:
		case err := <-ended:
			t.Fatal(err)
		case <-limit:
			t.Fatal("the device's tools are not there")
		}
	}
	if st, _ := m.Status("device"); st.Tools != len(offeredByDevice) {
		t.Fatalf("the device's status is %+v", st)
	}
}
