package cli

import (
	"context"
	"testing"

	"patchbay/internal/plug/eyeclaw/sim"
)

// TestRotateCutsTheOldConnection replaces the token of a bot while its plugin is connected.
func TestRotateCutsTheOldConnection(t *testing.T) {
	for _, args := range [][]string{{"bot", "rotate", "lobster"}, {"bot", "rm", "lobster", "--yes"}} {
		t.Run(args[1], func(t *testing.T) {
			d := newDesk(t)
			d.ok("user", "add", "ada")
			var lobster newBot
			d.json(&lobster, "bot", "add", "--name", "lobster", "--kind", "eyeclaw")
			s := d.serve()
			notices := make(chan sim.Notice, 64)
			p := sim.New(sim.Options{
				Server: s.URL, Token: lobster.Token, Scale: 0.01,
				Upstream: func(context.Context, sim.Chat, func(string)) error { return nil },
				Watch:    func(n sim.Notice) { notices <- n },
			})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			await := func(kind sim.NoticeKind) sim.Notice {
				for n := range notices {
					if n.Kind == kind {
						return n
					}
				}
				return sim.Notice{}
			}
			await(sim.Subscribed)
			d.ok(args...)
			await(sim.Closed)
			if n := await(sim.Closed); n.Detail == "connection lost" { // the attempt to reconnect
				t.Errorf("with the old token it is let in, and then %q", n.Detail)
			}
			stop()
			<-done
		})
	}
}
