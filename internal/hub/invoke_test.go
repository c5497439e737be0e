package hub_test

import (
	"context"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/tool"
)

// deaf is a provider that does not stop when its context ends, and reports afterwards.
type deaf struct{ release, ended chan struct{} }

func (d *deaf) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	<-d.release
	c.Progress(tool.Progress{Done: 1})
	close(d.ended)
	return tool.Text("too late"), nil
}

// A call ends soon after its limit although its provider goes on, which is waited for at the end.
func TestDeafProvider(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	const limit, most = 50 * time.Millisecond, 100 * time.Millisecond
	d := &deaf{make(chan struct{}), make(chan struct{})}
	s, err := r.Hub.Register(hub.ProviderRef{ID: "deaf", Owner: r.Person.ID, Slug: "x", Kind: "test", Timeout: limit}, d)
	if err != nil {
		t.Fatal(err)
	}
	s.SetTools([]tool.Tool{{Name: "wait"}})
	returned := false
	began := time.Now()
	_, err = r.Hub.Call(t.Context(), hub.Access{Caller: tool.Caller{Person: r.Person.ID}}, "x_wait",
		&tool.Call{Progress: func(tool.Progress) {
			if returned {
				t.Error("progress is reported after the call has returned")
			}
		}})
	took := time.Since(began)
	returned = true
	if e := tool.AsError(err); e == nil || e.Code != tool.TimedOut {
		t.Errorf("the call ends with %v", err)
	}
	if took-limit > most {
		t.Errorf("with a limit of %v the call took %v", limit, took)
	}
	close(d.release)
	r.Hub.Close()
	select {
	case <-d.ended:
	default:
		t.Error("the hub is closed, and the provider still runs")
	}
}
