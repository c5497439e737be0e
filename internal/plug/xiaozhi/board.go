package xiaozhi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/store"
)

// Board is one board, asleep or not. It is the provider of its tools.
type Board struct {
	house  *Boards
	number int64
	mac    string
	ctx    context.Context // ends when the board is removed, and with the house
	cancel context.CancelCauseFunc

	// deciding is held while somebody finds out what the database says about the
	// board, or changes it, so that the newest is what counts in the end. It is taken
	// before mu.
	deciding sync.Mutex

	mu          sync.Mutex
	device      store.Device
	build       string        // the hash of its firmware, as it told when it called home last
	relisted    time.Time     // when its tools were last listed out of turn
	gone        bool          // it was removed
	socket      *board.Socket // nil if it could not be plugged in
	can         *repertoire
	greets      *socket       // of which the hello is waited for; nil: none
	line        *line         // nil: it sleeps
	connections int64         // so many lines were made
	newest      int64         // the order of the newest line that was attached
	via         string        // how it was connected here last; empty: not yet
	talk        *Conversation // nil: nobody talks with it
	last        *counts       // of the conversation before
	shot        *shot         // a photo that somebody waits for
	rec         *recording    // that was started and not stopped
	ears        []*ear        // who hears or sees what is near it
	heard       *Ear          // who did last
	woke        chan struct{} // closed and replaced when a conversation begins; nil: nobody waits
	delivering  bool          // what waited is being delivered
	redeliver   bool          // and has to be looked for again
}

// plugIn offers the board's tools. With mu and deciding held.
func (b *Board) plugIn() {
	d := b.device
	o := board.Outlet{ID: OutletOf(d.Number), Owner: d.Owner, Slug: slugOf(d), Kind: Kind, Title: d.Name, Timeout: callLimit}
	socket, err := b.house.Hub.Plug(o, b)
	for _, slug := range []string{plainSlug(d), ownSlug(d)} {
		if errors.Is(err, board.ErrPlugged) {
			o.Slug = slug
			socket, err = b.house.Hub.Plug(o, b)
		}
	}
	if err != nil {
		b.house.Logger.Error("the tools of a board cannot be offered", "device", d.Number, "error", err)
		return
	}
	b.socket = socket
	socket.Offer(b.can.tools)
	if b.line != nil { // it was faster
		b.line.epoch = socket.Hold(true)
	}
}

// remembered is what was found out about the board when it was awake.
func (b *Board) remembered(ctx context.Context) *repertoire {
	text, err := b.house.Store.Devices.Catalog(ctx, b.number)
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) {
			b.house.Logger.Warn("which tools a board has was not found", "device", b.number, "error", err)
		}
		return bare
	}
	return b.told(text)
}

// told is what the board has told of its tools once, as it was kept; nil: nothing.
func (b *Board) told(catalog json.RawMessage) *repertoire {
	if len(catalog) == 0 {
		return bare
	}
	can, err := b.house.known.of(catalog)
	if err != nil {
		b.house.Logger.Warn("which tools a board has was not found", "device", b.number, "error", err)
		return bare
	}
	return can
}

// setBuild takes over which firmware the board has. Its version alone does not tell.
func (b *Board) setBuild(d store.Device) {
	var features struct {
		Build string `json:"build"`
	}
	_ = json.Unmarshal(d.Features, &features) // what is not there changes nothing
	b.mu.Lock()
	defer b.mu.Unlock()
	b.build = features.Build
}

// look looks whether something about the board is not as somebody has read it. What
// was read can be older than what is known, so it is read again then.
func (b *Board) look(ctx context.Context, d store.Device) error {
	b.mu.Lock()
	same := b.socket != nil && sameDevice(&b.device, &d)
	b.mu.Unlock()
	if same {
		return nil
	}
	return b.lookAgain(ctx)
}

// sameDevice says whether two devices are the same in what matters here.
func sameDevice(a, b *store.Device) bool {
	return a.Owner == b.Owner && a.Client == b.Client && a.SecretVersion == b.SecretVersion && a.Name == b.Name && a.Bot == b.Bot &&
		a.Transport == b.Transport && a.Family == b.Family && a.Article == b.Article && a.Version == b.Version && a.Language == b.Language &&
		bytes.Equal(a.Settings, b.Settings)
}

// lookAgain takes over what the database says about the board.
func (b *Board) lookAgain(ctx context.Context) error {
	b.deciding.Lock()
	defer b.deciding.Unlock()
	b.mu.Lock()
	gone := b.gone
	b.mu.Unlock()
	if gone {
		return nil
	}
	d, err := b.house.Store.Devices.ByNumber(ctx, b.number)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (d.Owner == "" || d.Client == ""):
		b.house.unplug(b)
		return nil
	case err != nil:
		return err
	}
	return b.changed(ctx, slim(d))
}

// changed takes over what the database says about the board. With deciding held.
func (b *Board) changed(ctx context.Context, d store.Device) error {
	b.mu.Lock()
	old := b.device
	b.device = d
	if d.Owner != old.Owner { // they are somebody else's tools now
		b.mu.Unlock()
		b.house.unplug(b)
		_, _, err := b.house.plug(ctx, d, func(b *Board) *repertoire { return b.remembered(ctx) })
		return err
	}
	switch {
	case b.socket == nil:
		b.plugIn()
	case d.Name != old.Name:
		var err error
		for _, slug := range []string{slugOf(d), plainSlug(d), ownSlug(d)} {
			if err = b.socket.Rename(slug, d.Name); err == nil {
				break
			}
		}
		if err != nil {
			b.house.Logger.Warn("a board's tools keep their names", "device", b.number, "error", err)
		}
	}
	b.mu.Unlock()
	if d.SecretVersion != old.SecretVersion || d.Client != old.Client {
		b.cut(errRevoked, true)
	}
	if d.Transport != old.Transport {
		b.house.Logger.Info("a board connects in another way after its next start", "device", b.number, "transport", d.Transport)
	}
	return nil
}

// Moved implements [board.Movable]: the board has connected to another instance.
func (b *Board) Moved(upTo int64) {
	b.mu.Lock()
	stays := b.line != nil && b.line.epoch > upTo
	b.mu.Unlock()
	if !stays {
		b.cut(errElsewhere, false)
	}
}

// cut ends the board's connection, with tell not before the board was told that the
// conversation is over. It does not wait.
func (b *Board) cut(why error, tell bool) {
	b.mu.Lock()
	l, c, s := b.line, b.talk, b.greets
	b.mu.Unlock()
	end := func(tell bool) {
		if c != nil {
			c.end(why, tell)
		}
		if l != nil {
			l.drop(why)
		}
	}
	if s != nil {
		s.drop()
	}
	if c == nil || !tell || !b.house.spawn(func() { end(true) }) {
		end(false)
	}
}

func (b *Board) conversation() *Conversation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.talk
}

// connection is how the board is reached now; nil if it sleeps.
func (b *Board) connection() *line {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.line
}
