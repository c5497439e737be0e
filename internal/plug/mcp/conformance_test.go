package mcp

import (
	"testing"

	"patchbay/internal/board"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/tool"
)

// plugFixtures plugs the suite's fixtures in as an ordinary provider.
func plugFixtures(t testing.TB, r *rig) *mcptest.Fixtures {
	t.Helper()
	var socket *board.Socket
	f := mcptest.New(mcptest.Options{
		Offer:           func(tools []tool.Tool) { socket.Offer(tools) },
		PromptsChanged:  func() { socket.Changed() },
		ResourceUpdated: func(uri string) { socket.Updated(uri) },
	})
	socket = r.plug(t, board.Outlet{ID: "fixtures", Kind: "fixtures"}, f, f.Tools()...)
	return f
}

// The official conformance suite, in both eras: first as it is, then through a
// proxy that shows a key, since the suite cannot.
func TestConformance(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			r := newRig(t, rigOptions{open: true})
			plugFixtures(t, r)
			mcptest.Conformance(t, r.url+"/mcp", revision)
		})
		t.Run(revision+" with a key", func(t *testing.T) {
			r := newRig(t, rigOptions{})
			plugFixtures(t, r)
			mcptest.Conformance(t, mcptest.Proxy(t, r.url, r.key)+"/mcp", revision)
		})
	}
}
