package clienttest

import "patchbay/internal/plug/openclaw/wire"

// Serve passes all requests of all clients to answer until the test ends. answer is called by one
// goroutine per client. Do not call Peer after Serve.
func (g *Gateway) Serve(answer func(*Peer, wire.Request)) {
	over := make(chan struct{})
	g.t.Cleanup(func() { close(over) }) // runs before the gateway's own cleanup
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
