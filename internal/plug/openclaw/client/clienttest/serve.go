package clienttest

import "patchbay/internal/plug/openclaw/wire"

// Serve has all requests of all clients answered by answer, until the test ends. It is
// called by a goroutine for each client. Peers are not to be waited for then.
func (g *Gateway) Serve(answer func(*Peer, wire.Request)) {
	over := make(chan struct{})
	g.t.Cleanup(func() { close(over) }) // before the gateway waits for its work
	g.work.Go(func() {
		for {
			select {
			case p := <-g.peers:
				g.work.Go(func() { p.serve(answer, over) })
			case <-over:
				return
			}
		}
	})
}

func (p *Peer) serve(answer func(*Peer, wire.Request), over chan struct{}) {
	for {
		select {
		case r := <-p.requests:
			answer(p, r)
		case <-p.done:
			return
		case <-over:
			return
		}
	}
}
