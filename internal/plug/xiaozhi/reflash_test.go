package xiaozhi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
)

// moves returns n tools of a robot.
func moves(n int) (tools []sim.Tool) {
	for i := range n {
		tools = append(tools, sim.Tool{Name: fmt.Sprintf("self.dog.move_%02d", i),
			Description: strings.Repeat("Moves the dog. ", 20)})
	}
	return tools
}

// A board is flashed with firmware of the same version and other tools. The tools are updated at
// its next connection; if it is flashed while it is connected, the first call of a tool that it no
// longer knows updates them.
func TestReflashed(t *testing.T) {
	for _, carrier := range []string{"websocket", "mqtt"} {
		for _, build := range []string{"another", ""} {
			t.Run(carrier+" "+build, func(t *testing.T) {
				t.Parallel()
				ctx := limit(t, 90*time.Second)
				h := newTestServer(t, testServerOptions{mqtt: carrier == "mqtt"})
				b := h.device(sim.Options{Tools: moves(40)})
				listed := func(n int) {
					t.Helper()
					d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
					must(t, err)
					for {
						_, _, tools := h.Hub.FindProvider(xiaozhi.ProviderID(d.Number))
						have := 0
						for _, o := range tools {
							if strings.HasPrefix(o.Tool.Name, "self.dog.") {
								have++
							}
						}
						if have == n {
							return
						}
						tick := time.NewTimer(10 * time.Millisecond)
						select {
						case <-tick.C:
						case <-ctx.Done():
							t.Fatalf("%d tools are listed, not %d", have, n)
						}
					}
				}
				connect := func() {
					t.Helper()
					must(t, b.Boot(ctx))
					if carrier == "websocket" {
						must(t, b.Press(ctx))
					}
				}
				connect()
				listed(40)
				b.Reflash(build, moves(2))
				connect()
				listed(2)
				b.Reflash("", moves(1))
				if _, err := h.call(ctx, b.MAC(), "self.dog.move_01", `{}`); err == nil ||
					!strings.Contains(err.Error(), "Unknown tool") {
					t.Errorf("the call of a tool that is gone: %v", err)
				}
				listed(1)
				clean(t, b)
			})
		}
	}
}
