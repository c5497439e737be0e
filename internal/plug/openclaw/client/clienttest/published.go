package clienttest

import (
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
)

// withoutSchema are the methods for whose parameters OpenClaw publishes no definition.
// The gateway's own test of the schema notices when there is one.
var withoutSchema = []string{wire.MethodRunnerInventory}

// Check checks everything that clients have said so far with the schema that OpenClaw
// publishes, connect included, and tells how often they have said it: by method, and
// of what nodes tell, by event as well. The gateway must have the option Keep.
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

// definition returns how the parameters of a method are called: ChatSendParams of chat.send.
func definition(method string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(method, ".") {
		b.WriteString(strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):])
	}
	return b.String() + "Params"
}

// record keeps what a client has said, if that is wanted.
func (g *Gateway) record(frame []byte) {
	if !g.opt.RecordFrames {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frames = append(g.frames, frame)
}
