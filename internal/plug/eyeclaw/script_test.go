package eyeclaw

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/eyeclaw/sim"
)

// plugin is a simulated plugin whose notices a test can wait for.
type plugin struct {
	*sim.Plugin
	t       *testing.T
	notices chan sim.Notice
	stop    func()
}

// plugin starts a plugin that is a hundred times as fast as the real one, so that it reconnects
// after some 20 ms.
func (r *rig) plugin(up sim.Upstream) *plugin {
	r.t.Helper()
	return r.pluginAt(0.01, up)
}

func (r *rig) pluginAt(scale float64, up sim.Upstream) *plugin {
	r.t.Helper()
	p := &plugin{t: r.t, notices: make(chan sim.Notice, 10000)}
	p.Plugin = sim.New(sim.Options{Server: r.http.URL, Token: goodToken, BotID: "7", Upstream: up, Scale: scale,
		Watch: func(n sim.Notice) { p.notices <- n }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	p.stop = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(p.stop)
	p.wait(sim.Subscribed)
	return p
}

// away cuts the plugin's socket, calls f, and lets the plugin reconnect.
func (r *rig) away(p *plugin, f func()) {
	r.t.Helper()
	closed := func(err error) {
		r.mu.Lock()
		r.storeErr = err
		r.mu.Unlock()
	}
	closed(errors.New("not yet"))
	p.Drop()
	p.wait(sim.Closed)
	f()
	closed(nil)
	p.wait(sim.Subscribed)
}

// wait returns the next notice of that kind.
func (p *plugin) wait(kind sim.NoticeKind) sim.Notice {
	p.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case n := <-p.notices:
			if n.Kind == kind {
				return n
			}
		case <-limit:
			p.t.Fatalf("the plugin never was %s", kind)
		}
	}
}

// pieces returns an upstream that always sends the same pieces.
func pieces(list ...string) sim.Upstream {
	return func(_ context.Context, _ sim.Chat, piece func(string)) error {
		for _, s := range list {
			piece(s)
		}
		return nil
	}
}

// script is an upstream whose answers a test controls, by question.
type script struct {
	chats map[string]chan func(piece func(string)) (done bool, err error)
}

func newScript(questions ...string) *script {
	s := &script{make(map[string]chan func(func(string)) (bool, error))}
	for _, q := range questions {
		s.chats[q] = make(chan func(func(string)) (bool, error), 1000)
	}
	return s
}

// say sends pieces of the answer to a question, in order.
func (s *script) say(question string, list ...string) {
	for _, text := range list {
		s.chats[question] <- func(piece func(string)) (bool, error) { piece(text); return false, nil }
	}
}

// spoken waits until all pieces have been sent, wherever they went.
func (s *script) spoken(t *testing.T, question string) {
	t.Helper()
	out := make(chan struct{})
	s.chats[question] <- func(func(string)) (bool, error) { close(out); return false, nil }
	select {
	case <-out:
	case <-time.After(patience):
		t.Fatal("the plugin does not ask its upstream")
	}
}

func (s *script) end(question string) {
	s.chats[question] <- func(func(string)) (bool, error) { return true, nil }
}

func (s *script) fail(question string, reason string) {
	s.chats[question] <- func(func(string)) (bool, error) { return true, errors.New(reason) }
}

func (s *script) up(ctx context.Context, c sim.Chat, piece func(string)) error {
	for {
		select {
		case step := <-s.chats[c.Message]:
			if done, err := step(piece); done {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
