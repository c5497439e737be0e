package xiaozhi_test

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// What is said to a board is among the turns of its bot, with what is missing, if nothing can
// recognise it: once in a conversation where the board repeats what it hears instead, and for each
// question otherwise. A server that is set to repeat records nothing.
func TestNotHeardIsRecorded(t *testing.T) {
	t.Parallel()
	speech := openaitest.New(t)
	link := speechLink(t, speech, openai.Settings{})
	speaks := engine.Link{Name: "speaks", Engine: engine.Engine{Speaker: link.Speaker}, Circuit: new(engine.Circuit)}
	for name, c := range map[string]struct {
		boards func(*xiaozhi.Options)
		want   int
	}{
		"no engine":    {func(o *xiaozhi.Options) { o.Voice = xiaozhi.EchoVoice{Instead: true} }, 1},
		"none hears":   {withEngines(speaks), 2},
		"only an echo": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			h := newTestServer(t, testServerOptions{boards: c.boards})
			b := h.device(sim.Options{Lang: "en-US", Mode: wire.ModeManual})
			must(t, b.Boot(ctx))
			bot := h.bindScript(ctx, b, weather)
			for range 2 {
				_, err := b.Ask(ctx, spoken(t))
				must(t, err)
			}
			b.Close()
			found := []store.Trace{}
			for first := true; first || len(found) < c.want; first = false { // they are stored a moment later
				var err error
				found, err = h.Store.Traces.ByBot(ctx, bot.Number, time.Now().Add(time.Hour), "", 9)
				must(t, err)
			}
			if len(found) != c.want {
				t.Errorf("%d turns are recorded: %+v", len(found), found)
			}
			for _, tr := range found {
				if tr.Outcome != "failed" || tr.Code != string(talk.NotHeard) || tr.Owner != h.Person.ID ||
					tr.Channel != xiaozhi.Channel || !strings.Contains(tr.Cause, "no speech engine is set up") {
					t.Errorf("recorded is %+v", tr)
				}
			}
		})
	}
}
