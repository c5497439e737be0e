package clienttest

import (
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
)

// withoutSchema are the methods whose parameters the published schema does not define. The schema
// test of package gateway fails when it does.
var withoutSchema = []string{wire.MethodRunnerInventory}

// Check checks all recorded frames of clients, connect included, with the published schema. It
// returns their number by method, and for node events by method and event. It requires
// Options.RecordFrames.
func (g *Gateway) Check(s *openclawtest.Schema) map[string]int {
	g.t.Helper()
	if !g.opt.RecordFrames {
		g.t.Fatal("the gateway has kept nothing")
	}
	g.mu.Lock()
	frames := slices.Clone(g.frames)
	g.mu.Unlock()
	said := map[string]int{}
	for _, frame := range frames {
		g.checkSchema(s, "RequestFrame", frame)
		r, err := wire.ParseRequest(frame)
		if err != nil {
			g.t.Errorf("%s: %v", frame, err)
			continue
		}
		if !slices.Contains(withoutSchema, r.Method) {
			g.checkSchema(s, definition(r.Method), r.Params)
		}
		what := r.Method
		if e, wrong := wire.ParseNodeEvent(r.Params); r.Method == wire.MethodNodeEvent && wrong == nil {
			what += " " + e.Event
		}
		said[what]++
	}
	return said
}

func (g *Gateway) checkSchema(s *openclawtest.Schema, definition string, value []byte) {
	g.t.Helper()
	if err := s.Check(g.t, definition, value); err != nil {
		g.t.Errorf("%s is no %s: %v", value, definition, err)
	}
}

// definition returns the schema's name for the parameters of a method: ChatSendParams for
// chat.send.
func definition(method string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(method, ".") {
		b.WriteString(strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):])
	}
	return b.String() + "Params"
}

// record records a frame of a client if Options.RecordFrames is set.
func (g *Gateway) record(frame []byte) {
	if !g.opt.RecordFrames {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frames = append(g.frames, frame)
}
