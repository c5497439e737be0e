package main

import (
	"context"
	"sync"

	"patchbay/internal/app"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
)

// demoBoard is the simulated voice board of serve --demo.
type demoBoard struct {
	board *sim.Board
	work  sync.WaitGroup
	stop  context.CancelFunc
}

// start turns the board on.
func (d *demoBoard) start(ctx context.Context, url string) {
	ctx, d.stop = context.WithCancel(ctx)
	d.board = sim.New(sim.Options{
		OTA: url + xiaozhi.HomePath, MAC: app.DemoBoardMAC, UUID: app.DemoBoardUUID, Profile: sim.FW25, Picture: inventedJPEG(), Tries: 10,
	})
	d.work.Go(func() { _ = d.board.Boot(ctx) }) // the log of the server says what it makes of the board
}

// close turns it off.
func (d *demoBoard) close() {
	if d.board == nil {
		return
	}
	d.stop()
	d.board.Close()
	d.work.Wait()
}
