package clienttest

import (
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
)

// unpublished are the methods for whose parameters OpenClaw publishes no definition.
// The gateway's own test of the schema notices when there is one.
var unpublished = []string{wire.MethodRunnerInventory}

// Check checks everything that clients have said so far with the schema that OpenClaw
// publishes, connect included, and tells how often they have said it: by method, and
// of what nodes tell, by event as well. The gateway must have the option Keep.
func (g *Gateway) Check(s *openclawtest.Schema) map[string]int {
	g.t.Helper()
	if !g.opt.Keep {
		g.t.Fatal("the gateway has kept nothing")
	}
	g.mu.Lock()
	frames := slices.Clone(g.kept)
	g.mu.Unlock()
	said := map[string]int{}
	for _, frame := range frames {
		g.fits(s, "RequestFrame", frame)
		r, err := wire.ParseRequest(frame)
		if err != nil {
			g.t.Errorf("%s: %v", frame, err)
			continue
		}
		if !slices.Contains(unpublished, r.Method) {
			g.fits(s, definition(r.Method), r.Params)
		}
		what := r.Method
		if e, wrong := wire.ParseNodeEvent(r.Params); r.Method == wire.MethodNodeEvent && wrong == nil {
			what += " " + e.Event
		}
		said[what]++
	}
	return said
}

func (g *Gateway) fits(s *openclawtest.Schema, definition string, value []byte) {
	g.t.Helper()
	if err := s.Check(g.t, definition, value); err != nil {
		g.t.Errorf("%s is no %s: %v", value, definition, err)
	}
}

// definition is how the parameters of a method are called: ChatSendParams of chat.send.
func definition(method string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(method, ".") {
		b.WriteString(strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):])
	}
	return b.String() + "Params"
}

// keep keeps what a client has said, if that is wanted.
func (g *Gateway) keep(frame []byte) {
	if !g.opt.Keep {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = append(g.kept, frame)
}
