package bot

import (
	"maps"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// All requests of a bot match the published schema: it probes, subscribes, sends text and pictures,
// fetches the state of an answer, and aborts one.
func TestPublishedFrames(t *testing.T) {
	schema := openclawtest.LoadSchema(t)
	h := newFakeGateway(t, clienttest.Options{RecordFrames: true}, Options{silenceTimeout: 300 * time.Millisecond},
		func(s *Settings) { s.Thinking, s.SessionPrefix = "low", "kitchen" })
	looked := make(chan error)
	go func() {
		_, err := h.bot.Probe(t.Context())
		looked <- err
	}()
	p := h.gate.Peer()
	p.Answer(p.Next(wire.MethodAgentsList), map[string]any{"agents": []any{}})
	if err := <-looked; err != nil {
		t.Error(err)
	}

	turn := said("lingzhu:1:2", "/status <of> \"dinner\" 晚饭")
	turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/webp", Data: []byte("0123456789")}})
	conv := h.ask(turn)
	conv.delta("One", "One")
	conv.await("One")
	conv.history(recordEnded) // it was silent for too long
	if err := conv.end(); err != nil {
		t.Error(err)
	}

	// Above the limit of conversations, an unused one is unsubscribed.
	l := h.bot.gateway
	l.subscribeLock <- struct{}{}
	for len(l.subscribed) < maxSubscribed {
		l.subscribed = append(l.subscribed, "agent:main:of long ago")
	}
	<-l.subscribeLock
	peer := conv.peer
	next := &conversation{asked: begin(t, h.bot, said("another", "count")), t: t, peer: peer}
	peer.Answer(peer.Next(wire.MethodUnsubscribe), map[string]any{"subscribed": false})
	next.subscribed()
	next.accept()
	next.delta("One", "One")
	next.await("One")
	next.cancel()
	_ = next.end()
	r := peer.NextAny()
	for ; r.Method == wire.MethodChatHistory; r = peer.NextAny() { // on a busy machine
		peer.Answer(r, map[string]any{"messages": []any{}})
	}
	if r.Method != wire.MethodChatAbort {
		t.Errorf("the bot calls %s", r.Method)
	}
	peer.Answer(r, wire.AbortResult{OK: true, Aborted: true})

	got := h.gate.Check(schema)
	if got[wire.MethodChatHistory] == 0 {
		t.Error("the bot has not asked what became of an answer")
	}
	delete(got, wire.MethodChatHistory)
	want := map[string]int{
		wire.MethodConnect: 2, wire.MethodAgentsList: 1, wire.MethodSubscribe: 2, wire.MethodUnsubscribe: 1,
		wire.MethodChatSend: 2, wire.MethodChatAbort: 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("the bot said %v, not %v", got, want)
	}
}
