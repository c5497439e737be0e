package main

import (
	"context"
	"net/http"
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

func TestDisconnectIsForThoseWhoRunTheInstallation(t *testing.T) {
	d := withParrot(t)
	var operator, admin struct{ Key string }
	d.json(&operator, "key", "add", "--name", "o", "--scope", "operator")
	d.json(&admin, "key", "add", "--name", "a", "--scope", "admin")
	s := d.serve()
	for _, c := range []struct {
		key, path string
		status    int
	}{
		{"wrong", "/api/v1/bots/1/disconnect", http.StatusUnauthorized},
		{operator.Key, "/api/v1/bots/1/disconnect", http.StatusForbidden},
		{admin.Key, "/api/v1/bots/1/disconnect", http.StatusOK},
		{admin.Key, "/api/v1/bots/parrot/disconnect", http.StatusNotFound},
	} {
		req, err := http.NewRequest(http.MethodPost, s.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s is answered with %d, want %d", c.path, resp.StatusCode, c.status)
		}
	}
}
