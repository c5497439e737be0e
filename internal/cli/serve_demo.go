package cli

import (
	"context"
	"sync"

	"patchbay/internal/app"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
)

// demoBoard is the simulated board of serve --demo.
type demoBoard struct {
	board *sim.Board
	work  sync.WaitGroup
	stop  context.CancelFunc
}

// start starts the board.
func (d *demoBoard) start(ctx context.Context, url string) {
	ctx, d.stop = context.WithCancel(ctx)
	d.board = sim.New(sim.Options{
		OTA: url + xiaozhi.OTAPath, MAC: app.DemoBoardMAC, UUID: app.DemoBoardUUID, Profile: sim.FW25,
		Picture: sampleJPEG(), Tries: 10,
	})
	d.work.Go(func() { _ = d.board.Boot(ctx) }) // the server logs what happens with the board
}

// close stops the board.
func (d *demoBoard) close() {
	if d.board == nil {
		return
	}
	d.stop()
	d.board.Close()
	d.work.Wait()
}
