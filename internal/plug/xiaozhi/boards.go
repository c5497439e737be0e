package xiaozhi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/voice/opus"
)

const (
	// DefaultSilence is after how much silence a conversation is over. Boards never
	// end one by themselves.
	DefaultSilence = 60 * time.Second
	// DefaultLinger is the same for boards that wait for their button to be pressed,
	// and can be reached meanwhile.
	DefaultLinger = 10 * time.Minute
	// DefaultSockets bounds WebSockets at a time, each of which costs memory.
	DefaultSockets = 5000
	// photoToken is for how long a board may send photos without being told a new
	// token. It is told one when half of that is over.
	photoToken = 24 * time.Hour
	// callLimit bounds a call of one of a board's tools, with the wait for others, and
	// for somebody to speak.
	callLimit = 10 * time.Minute
	// databaseLimit bounds what is read and written for a board that nobody waits for.
	databaseLimit = 10 * time.Second
	// pageOfBoards is how many boards are read from the database at once.
	pageOfBoards = 500
)

// OutletOf is the id of the outlet that a board is plugged into.
func OutletOf(number int64) string { return "board:" + strconv.FormatInt(number, 10) }

// Options make [Boards]. Accounts, Store, Hub and Logger are required.
type Options struct {
	Accounts   *account.Service
	Store      *store.DB
	Hub        *board.Board
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil keeps the metrics private
	Guard      *account.Guard        // counts refused tokens by address; nil: nobody does
	Address    func(*http.Request) netip.Addr
	Lang       talk.Lang // for boards that tell none

	// Voice listens and answers; nil: nobody does, and boards are only played to.
	Voice Voice
	// Encoders make packets of what is no Opus; nil: only Opus can be played.
	Encoders *opus.Encoders
	// Fetch opens a sound at an address that came from outside. It refuses private
	// addresses. Nil: there is no such way.
	Fetch func(ctx context.Context, url string) (*http.Response, error)

	// Audio is for boards on MQTT; nil: they cannot talk.
	Audio *udp.Server
	// PublicURL is where boards reach the server, as in [DiscoveryOptions]. If it is
	// empty, Port, and Secure if that is TLS, are where boards on MQTT find it at the
	// address at which they found us.
	PublicURL string
	Port      string
	Secure    bool

	Silence   time.Duration // [DefaultSilence] if 0
	Linger    time.Duration // [DefaultLinger] if 0
	Sockets   int           // [DefaultSockets] if 0
	WakeWords []string      // what boards say when they were woken
	// Claim tells other instances that a board is here now, so that they let go of it;
	// nil: there are none.
	Claim func(number int64)
}

// Boards knows all approved boards, those that are connected to this instance and
// those that sleep, and offers each as a provider of tools. It is safe for concurrent
// use.
type Boards struct {
	Options
	metrics *metrics
	public  *place // nil: where a board came to

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // every goroutine that this package starts

	stopping chan struct{} // closed when no conversation begins any more

	mu       sync.Mutex
	boards   map[int64]*Board
	byMAC    map[string]*Board
	sockets  int // WebSockets that are open
	draining bool
}

// NewBoards makes Boards. Nothing is plugged in before [Boards.Refresh].
func NewBoards(o Options) (*Boards, error) {
	if o.Silence == 0 {
		o.Silence = DefaultSilence
	}
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	if o.Sockets == 0 {
		o.Sockets = DefaultSockets
	}
	if o.Lang == "" {
		o.Lang = talk.English
	}
	if o.Claim == nil {
		o.Claim = func(int64) {}
	}
	if o.Address == nil {
		o.Address = func(r *http.Request) netip.Addr {
			at, _ := netip.ParseAddrPort(r.RemoteAddr)
			return at.Addr().Unmap()
		}
	}
	h := &Boards{Options: o, metrics: newMetrics(o.Registerer), stopping: make(chan struct{}), boards: map[int64]*Board{}, byMAC: map[string]*Board{}}
	if o.PublicURL != "" {
		p, err := publicPlace(o.PublicURL)
		if err != nil {
			return nil, fmt.Errorf("boards cannot use the public URL: %w", err)
		}
		h.public = &p
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// Refresh makes the boards that are plugged in those that the database has. It is
// called at the start, and whenever a device was approved, changed or removed.
func (h *Boards) Refresh(ctx context.Context) error {
	known := map[int64]bool{}
	for after := int64(0); ; {
		page, err := h.Store.Devices.Page(ctx, after, pageOfBoards)
		if err != nil {
			return err
		}
		for _, d := range page {
			after = d.Number
			if d.Kind != Kind || d.Client == "" {
				continue
			}
			known[d.Number] = true
			h.plug(ctx, d)
		}
		if len(page) < pageOfBoards {
			break
		}
	}
	h.mu.Lock()
	var gone []*Board
	for number, b := range h.boards {
		if !known[number] {
			gone = append(gone, b)
		}
	}
	h.mu.Unlock()
	for _, b := range gone {
		h.unplug(b)
	}
	return nil
}

// plug plugs a board in, or takes over what has changed about it.
func (h *Boards) plug(ctx context.Context, d store.Device) *Board {
	h.mu.Lock()
	b := h.boards[d.Number]
	if b != nil {
		h.mu.Unlock()
		b.changed(d)
		return b
	}
	b = &Board{house: h, number: d.Number, device: d}
	h.boards[d.Number], h.byMAC[d.Hardware] = b, b
	h.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remember(ctx)
	o := board.Outlet{ID: OutletOf(d.Number), Owner: d.Owner, Slug: slugOf(d), Kind: Kind, Title: d.Name, Timeout: callLimit}
	socket, err := h.Hub.Plug(o, b)
	if errors.Is(err, board.ErrPlugged) && o.Slug != plainSlug(d) {
		o.Slug = plainSlug(d)
		socket, err = h.Hub.Plug(o, b)
	}
	if err != nil {
		h.Logger.Error("the tools of a board cannot be offered", "device", d.Number, "error", err)
		return b
	}
	b.socket, b.slug = socket, o.Slug
	b.offer()
	return b
}

// unplug forgets a board that was removed.
func (h *Boards) unplug(b *Board) {
	h.mu.Lock()
	delete(h.boards, b.number)
	if h.byMAC[b.device.Hardware] == b {
		delete(h.byMAC, b.device.Hardware)
	}
	h.mu.Unlock()
	b.cut(errRevoked)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.socket != nil {
		b.socket.Unplug()
		b.socket = nil
	}
}

// find finds a board that is plugged in; nil if there is none.
func (h *Boards) find(number int64) *Board {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boards[number]
}

// Elsewhere says that a board has connected to another instance.
func (h *Boards) Elsewhere(number int64) {
	if b := h.find(number); b != nil {
		b.cut(errElsewhere)
	}
}

// slugBad is what cannot be in the beginning of a tool's name.
var slugBad = regexp.MustCompile(`[^a-z0-9]+`)

// slugOf begins the names of a board's tools: its own name, as far as that can be
// written with small letters and digits.
func slugOf(d store.Device) string {
	slug := strings.Trim(slugBad.ReplaceAllString(strings.ToLower(d.Name), "-"), "-")
	if slug = strings.Trim(slug[:min(len(slug), 24)], "-"); slug == "" || board.CheckSlug(slug) != nil {
		return plainSlug(d)
	}
	return slug
}

func plainSlug(d store.Device) string { return "board-" + strconv.FormatInt(d.Number, 10) }

// wakeWord says whether a text is one of those with which boards are woken.
func (h *Boards) wakeWord(text string) bool {
	return slices.ContainsFunc(h.WakeWords, func(w string) bool { return strings.EqualFold(strings.TrimSpace(text), w) })
}

// background is a context for what is done for a board although nobody waits.
func (h *Boards) background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(h.ctx, databaseLimit)
}

// refuse lets nobody in any more, and returns all boards.
func (h *Boards) refuse() []*Board {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.draining = true
		close(h.stopping)
	}
	all := make([]*Board, 0, len(h.boards))
	for _, b := range h.boards {
		all = append(all, b)
	}
	return all
}

// Drain ends all conversations, and lets no new one begin. It waits for those that
// run until ctx ends.
func (h *Boards) Drain(ctx context.Context) {
	all := h.refuse()
	var ends sync.WaitGroup
	for _, b := range all {
		if c := b.conversation(); c != nil {
			ends.Go(func() { c.end(errDrained, true) })
		}
	}
	done := make(chan struct{})
	go func() { ends.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		h.cancel()
		<-done
	}
}

// Close cuts all connections and waits until nothing runs any more.
func (h *Boards) Close() {
	all := h.refuse()
	for _, b := range all {
		b.cut(errDrained)
	}
	h.cancel()
	h.work.Wait()
}

var (
	errRevoked   = errors.New("the board was removed, or has new credentials")
	errElsewhere = errors.New("the board has connected to another instance")
	errNewer     = errors.New("the board has connected again")
)

// Board is one board, asleep or not. It is the provider of its tools.
type Board struct {
	house  *Boards
	number int64

	mu      sync.Mutex
	device  store.Device
	slug    string
	socket  *board.Socket // nil if it could not be plugged in
	catalog remote.Catalog
	line    *line         // nil: it sleeps
	talk    *Conversation // nil: nobody talks with it
	last    *counts       // of the conversation before
	shot    *shot         // a photo that somebody waits for
	rec     *recording    // that was started and not stopped
	woke    chan struct{} // closed and replaced when a conversation begins; nil: nobody waits

	delivering sync.Mutex // one delivery of what waited at a time
}

// line is a connection by which messages reach a board.
type line struct {
	board   *Board
	via     string // how it came: store.TransportSocket or TransportMQTT
	from    netip.AddrPort
	at      place // where the board found us; zero if that is not known
	since   time.Time
	send    func(message []byte) error
	drop    func(why error) // ends it; does not wait
	remote  *remote.Client
	told    time.Time // when the board was told where photos go; with board.mu held
	ctx     context.Context
	cancel  context.CancelCauseFunc
	session func() string // of the conversation that goes on, for messages
}

// remember loads what was found out about the board when it was awake. With mu held.
func (b *Board) remember(ctx context.Context) {
	text, err := b.house.Store.Devices.Catalog(ctx, b.number)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &b.catalog)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		b.house.Logger.Warn("which tools a board has was not found", "device", b.number, "error", err)
	}
}

// offer says which tools there are. With mu held.
func (b *Board) offer() {
	if b.socket == nil {
		return
	}
	own := ownTools
	tools := make([]tool.Tool, 0, len(own)+len(b.catalog.Tools))
	tools = append(tools, own...)
	for _, t := range b.catalog.Tools {
		if !slices.ContainsFunc(own, func(o tool.Tool) bool { return o.Name == t.Name }) {
			tools = append(tools, t)
		}
	}
	b.socket.Offer(tools)
}

// changed takes over what the database says about the board.
func (b *Board) changed(d store.Device) {
	b.mu.Lock()
	old := b.device
	b.device = d
	revoked := d.SecretVersion != old.SecretVersion || d.Owner != old.Owner || d.Client != old.Client
	moved := d.Transport != old.Transport
	again := d.Owner != old.Owner
	if b.socket != nil && !again && d.Name != old.Name {
		if err := b.socket.Rename(slugOf(d), d.Name); err != nil {
			if err := b.socket.Rename(plainSlug(d), d.Name); err != nil {
				b.house.Logger.Warn("a board's tools keep their names", "device", b.number, "error", err)
			}
		}
	}
	b.mu.Unlock()
	if again { // they are somebody else's tools now
		b.house.unplug(b)
		ctx, cancel := b.house.background()
		defer cancel()
		b.house.plug(ctx, d)
		return
	}
	if revoked {
		b.cut(errRevoked)
	}
	if moved {
		b.house.Logger.Info("a board connects in another way after its next start", "device", b.number, "transport", d.Transport)
	}
}

// cut ends the board's connection.
func (b *Board) cut(why error) {
	b.mu.Lock()
	l, c := b.line, b.talk
	b.mu.Unlock()
	if c != nil {
		c.end(why, true)
	}
	if l != nil {
		l.drop(why)
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
