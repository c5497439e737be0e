package xiaozhi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/store"
)

// Board is one approved board, connected or asleep. It implements [tool.Provider] for its tools.
type Board struct {
	boards *Boards
	number int64
	mac    string
	ctx    context.Context // ends when the board is removed, and with [Boards.Close]
	cancel context.CancelCauseFunc

	// updateMu serializes reading the device from the database and applying it, so that the
	// newest state wins. It is taken before mu.
	updateMu sync.Mutex

	mu              sync.Mutex
	device          store.Device
	build           string            // hash of its firmware, from its last OTA request
	lastRelist      time.Time         // when relistTools last listed its tools
	relistDue       bool              // relistTools will list them
	removed         bool              // no longer registered; see Boards.remove
	registration    *hub.Registration // nil: registration failed
	toolset         *toolset
	pendingSocket   *webSocket         // a WebSocket whose hello has not arrived; nil: none
	conn            *connection        // nil: asleep
	connections     int64              // how many were made
	newest          int64              // order of the newest one that was attached
	via             string             // transport of its last connection to this instance; empty: none yet
	conv            *Conversation      // nil: no conversation is active
	lastStats       *conversationStats // of the previous conversation
	pendingPhoto    *pendingPhoto      // the photo that a tool call waits for
	rec             *recording         // started and not stopped yet
	series          *pictureSeries     // started and not stopped yet
	activeListeners []*activeListener  // callers that listen, record or take a photo now
	lastListener    *Listener          // the last one that ended
	convStarted     chan struct{}      // closed and cleared when a conversation begins; nil: no waiter
	delivering      bool               // deliver is running
	redeliver       bool               // deliver must look again
}

// register registers the board's tools with the hub. Requires mu and updateMu.
func (b *Board) register() {
	d := b.device
	o := hub.ProviderRef{ID: ProviderID(d.Number), Owner: d.Owner, Slug: slugOf(d), Kind: Kind, Title: d.Name,
		Timeout: callTimeout}
	registration, err := b.boards.Hub.Register(o, b)
	for _, slug := range []string{defaultSlug(d), uniqueSlug(d)} {
		if errors.Is(err, hub.ErrProviderInUse) {
			o.Slug = slug
			registration, err = b.boards.Hub.Register(o, b)
		}
	}
	if err != nil {
		b.boards.Logger.Error("the tools of a board cannot be offered", "device", d.Number, "error", err)
		return
	}
	b.registration = registration
	registration.SetTools(b.toolset.tools)
	if b.conn != nil { // the board connected before it was registered
		b.conn.epoch = registration.Hold(true)
	}
}

// storedToolset returns the tools that the database has for the board.
func (b *Board) storedToolset(ctx context.Context) *toolset {
	text, err := b.boards.Store.Devices.Catalog(ctx, b.number)
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) {
			b.boards.Logger.Warn("which tools a board has was not found", "device", b.number, "error", err)
		}
		return emptyToolset
	}
	return b.parseToolset(text)
}

// parseToolset returns the tools of a stored catalog; an empty catalog has only the built-in ones.
func (b *Board) parseToolset(catalog json.RawMessage) *toolset {
	if len(catalog) == 0 {
		return emptyToolset
	}
	can, err := b.boards.toolsets.get(catalog)
	if err != nil {
		b.boards.Logger.Warn("which tools a board has was not found", "device", b.number, "error", err)
		return emptyToolset
	}
	return can
}

// setBuild stores the hash of the board's firmware. The version alone does not identify a build.
func (b *Board) setBuild(d store.Device) {
	var features struct {
		Build string `json:"build"`
	}
	_ = json.Unmarshal(d.Features, &features) // missing features leave the build empty
	b.mu.Lock()
	defer b.mu.Unlock()
	b.build = features.Build
}

// refreshIfChanged reloads the board if d differs from what is known. It does not apply d, which
// may be older than what is known.
func (b *Board) refreshIfChanged(ctx context.Context, d store.Device) error {
	b.mu.Lock()
	same := b.registration != nil && sameDevice(&b.device, &d)
	b.mu.Unlock()
	if same {
		return nil
	}
	return b.reload(ctx)
}

// sameDevice reports whether two devices are equal in the fields that a Board uses.
func sameDevice(a, b *store.Device) bool {
	return a.Owner == b.Owner && a.Client == b.Client && a.SecretVersion == b.SecretVersion && a.Name == b.Name &&
		a.Bot == b.Bot &&
		a.Transport == b.Transport && a.Family == b.Family && a.Article == b.Article && a.Version == b.Version &&
		a.Language == b.Language &&
		bytes.Equal(a.Settings, b.Settings) && bytes.Equal(a.Voice, b.Voice)
}

// reload reads the board from the database and applies the result.
func (b *Board) reload(ctx context.Context) error {
	b.updateMu.Lock()
	defer b.updateMu.Unlock()
	b.mu.Lock()
	gone := b.removed
	b.mu.Unlock()
	if gone {
		return nil
	}
	d, err := b.boards.Store.Devices.ByNumber(ctx, b.number)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (d.Owner == "" || d.Client == ""):
		b.boards.remove(b)
		return nil
	case err != nil:
		return err
	}
	return b.applyDevice(ctx, withoutFeatures(d))
}

// applyDevice applies a device read from the database. Requires updateMu.
func (b *Board) applyDevice(ctx context.Context, d store.Device) error {
	b.mu.Lock()
	old := b.device
	b.device = d
	if d.Owner != old.Owner { // the registration belongs to the old owner
		b.mu.Unlock()
		b.boards.remove(b)
		_, _, err := b.boards.addOrUpdate(ctx, d, func(b *Board) *toolset { return b.storedToolset(ctx) })
		return err
	}
	switch {
	case b.registration == nil:
		b.register()
	case d.Name != old.Name:
		var err error
		for _, slug := range []string{slugOf(d), defaultSlug(d), uniqueSlug(d)} {
			if err = b.registration.Rename(slug, d.Name); err == nil {
				break
			}
		}
		if err != nil {
			b.boards.Logger.Warn("a board's tools keep their names", "device", b.number, "error", err)
		}
	}
	b.mu.Unlock()
	if d.SecretVersion != old.SecretVersion || d.Client != old.Client {
		b.disconnect(errRevoked, true)
	}
	if d.Transport != old.Transport {
		b.boards.Logger.Info("a board connects in another way after its next start", "device", b.number,
			"transport", d.Transport)
	}
	return nil
}

// Moved implements [hub.Movable]: the board has connected to another instance.
func (b *Board) Moved(upTo int64) {
	b.mu.Lock()
	stays := b.conn != nil && b.conn.epoch > upTo
	b.mu.Unlock()
	if !stays {
		b.disconnect(errMovedAway, false)
	}
}

// disconnect ends the board's connection. With notify, the board first learns that the
// conversation is over. It does not wait.
func (b *Board) disconnect(why error, notify bool) {
	b.mu.Lock()
	l, c, s := b.conn, b.conv, b.pendingSocket
	b.mu.Unlock()
	end := func(notify bool) {
		if c != nil {
			c.end(why, notify)
		}
		if l != nil {
			l.drop(why)
		}
	}
	if s != nil {
		s.drop()
	}
	if c == nil || !notify || !b.boards.spawn(func() { end(true) }) {
		end(false)
	}
}

// current returns the board's device as it is known now.
func (b *Board) current() store.Device {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.device
}

func (b *Board) conversation() *Conversation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conv
}

// connection returns the board's current connection, or nil if it is asleep.
func (b *Board) connection() *connection {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conn
}
