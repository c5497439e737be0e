package eyeclaw

import (
	"context"
	"errors"
	"strings"
	"testing"

	"patchbay/internal/plug/eyeclaw/sim"
	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
)

// simulatedConnector runs a simulated connector until the test ends. joined receives whenever it
// has connected.
func (r *rig) simulatedConnector(agent func(context.Context, *sim.Connector, *sim.Question) error) (
	joined <-chan struct{}) {
	r.t.Helper()
	in := make(chan struct{}, 8)
	var c *sim.Connector
	c, err := sim.NewConnector(sim.ConnectorOptions{
		Connection: strings.Replace(r.http.URL, "://", "://"+goodToken+"@", 1),
		Agent:      func(ctx context.Context, q *sim.Question) error { return agent(ctx, c, q) },
		Joined:     func() { in <- struct{}{} },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			r.t.Error(err)
		}
	})
	<-in
	return in
}

// The simulated connector gets everything that our plugin gets, and loses nothing when its
// connection breaks in mid-answer.
func TestConnector_simulated(t *testing.T) {
	l := &lamp{hold: make(chan struct{})}
	close(l.hold)
	r := newConnectorRig(t, l)
	var joined <-chan struct{}
	begun := make(chan struct{})
	joined = r.simulatedConnector(func(ctx context.Context, c *sim.Connector, q *sim.Question) error {
		<-begun
		if q.Message != "what is this" || q.Pictures != 1 || len(q.Functions) != 2 ||
			!q.Functions[0].Device || !strings.HasPrefix(q.Conversation, "patchbay-7-lingzhu-") {
			t.Errorf("%+v", q)
		}
		q.Say(ctx, "one, ")
		c.Drop()
		q.Say(ctx, "two, ")
		<-joined
		for _, call := range []struct {
			name   string
			args   map[string]any
			want   string
			failed bool
		}{
			{"lamp", map[string]any{"on": true}, "it shines", false},
			{talk.CommandNavigate, map[string]any{"action": "open", "poi_name": "Zoo"}, toolbox.SentToDevice, false},
			{"cellar", nil, toolbox.UnknownFunction, true},
		} {
			got, failed, err := q.Call(ctx, call.name, call.args)
			if !strings.Contains(got, call.want) || failed != call.failed || err != nil {
				t.Errorf("%s: %q %t %v", call.name, got, failed, err)
			}
		}
		q.Say(ctx, "three.")
		return nil
	})
	a := r.asked("t1")
	close(begun)
	a.ends(t, "one, two, three.")
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.commands != 1 {
		t.Errorf("%d commands", a.commands)
	}
	if n := r.metric("anomalies_total", ""); n != 0 {
		t.Errorf("%v anomalies", n)
	}
}

// An agent that fails, and one whose answer nobody wants.
func TestConnector_simulatedFailures(t *testing.T) {
	r := newConnectorRig(t, nil)
	asked, over := make(chan struct{}), make(chan struct{})
	r.simulatedConnector(func(ctx context.Context, _ *sim.Connector, q *sim.Question) error {
		if q.Message == "fail" {
			return errors.New("no")
		}
		close(asked)
		<-ctx.Done()
		close(over)
		return ctx.Err()
	})
	bad := start(t.Context(), r.attachedBot(), &talk.Turn{ID: "t1", Bot: 7, Parts: []talk.Part{{Text: "fail"}}})
	bad.fails(t, talk.BotFailed)
	ctx, cancel := context.WithCancelCause(t.Context())
	a := start(ctx, r.attachedBot(), &talk.Turn{ID: "t2", Bot: 7, Parts: []talk.Part{{Text: "wait"}}})
	<-asked
	cancel(talk.ErrDisconnected)
	a.end(t)
	<-over
}
