package xiaozhi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/store"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/words"
)

const (
	// DefaultSilenceTimeout is the silence after which a conversation ends. In auto and realtime
	// mode boards listen until the server ends it (xiaozhi-esp32 main/application.cc,
	// Application::HandleStateChangedEvent).
	DefaultSilenceTimeout = 60 * time.Second
	// DefaultButtonTimeout is the same for boards in manual mode, which wait for their button
	// and can be reached meanwhile.
	DefaultButtonTimeout = 10 * time.Minute
	// DefaultMaxSockets is the limit of open WebSockets, each of which costs memory.
	DefaultMaxSockets = 5000
	// photoTokenTTL is how long a vision token is valid. It is renewed after half of that.
	photoTokenTTL = 24 * time.Hour
	// callTimeout limits a call of one of a board's tools, including the time in the queue and
	// the wait for a conversation.
	callTimeout = 10 * time.Minute
	// databaseTimeout limits database work that no request waits for.
	databaseTimeout = 10 * time.Second
	// boardPageSize is the number of boards read from the database at once.
	boardPageSize = 500
)

// ProviderID returns the id of a board's provider in the hub.
func ProviderID(number int64) string { return hub.DeviceProviderID(number) }

// Options configure [Boards]. Accounts, Store, Hub and Logger are required.
type Options struct {
	Accounts   *account.Service
	Store      *store.DB
	Hub        *hub.Hub
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil keeps the metrics unregistered
	Guard      *account.Guard        // counts refused tokens by address; nil: no limit
	Address    func(*http.Request) netip.Addr
	Lang       i18n.Lang // for boards that report no language; empty: English

	// Transport is how boards connect whose owner chose nothing; empty: store.TransportSocket.
	Transport string
	// Voice listens and answers; nil: boards only play what is pushed to them.
	Voice Voice
	// Encoders encode audio that is not Opus yet; nil: only Opus can be played.
	Encoders *opus.EncoderPool
	// Fetch opens a sound at a URL given by a caller. It must refuse private addresses.
	// Nil: sounds cannot be fetched.
	Fetch func(ctx context.Context, url string) (*http.Response, error)

	// Audio is the UDP server for boards on MQTT; nil: they cannot hold conversations.
	Audio *udp.Server
	// PublicURL is where boards reach the server, as in [DiscoveryOptions]. If it is empty,
	// boards on MQTT reach the HTTP server at the address of their MQTT connection, on Port,
	// by TLS if Secure is set.
	PublicURL string
	Port      string
	Secure    bool

	// Zone returns a person's time zone, for timers; nil: UTC.
	Zone func(ctx context.Context, person string) *time.Location

	SilenceTimeout time.Duration // [DefaultSilenceTimeout] if 0
	ButtonTimeout  time.Duration // [DefaultButtonTimeout] if 0
	MaxSockets     int           // [DefaultMaxSockets] if 0
	WakeWords      []string      // wake words of the boards
}

// Boards holds all approved boards, connected to this instance or asleep, and registers each with
// the hub as a provider of tools. It is safe for concurrent use.
type Boards struct {
	Options
	metrics   *metrics
	publicURL *serverURL // nil: each board uses the address of its own request
	toolsets  toolsetCache

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // every goroutine that this package starts; see spawn

	keeping chan struct{} // has a value for each recording that is being stored

	stopping   chan struct{} // closed when no new conversation may begin
	refreshing sync.Mutex    // one Refresh at a time

	// mu may be taken while the mu of a board is held, never the other way round.
	mu        sync.Mutex
	boards    map[int64]*Board
	byMAC     map[string]*Board
	phrases   phraseCache
	bots      map[int64]namedVoice // as read since the last Refresh
	refreshes int                  // how often bots was cleared
	sockets   int                  // open WebSockets
	pcm       int                  // of them, that speak PCM
	draining  bool
	closed    bool // spawn refuses
}

// NewBoards makes Boards. No board is registered before [Boards.Refresh].
func NewBoards(o Options) (*Boards, error) {
	if o.SilenceTimeout == 0 {
		o.SilenceTimeout = DefaultSilenceTimeout
	}
	if o.ButtonTimeout == 0 {
		o.ButtonTimeout = DefaultButtonTimeout
	}
	if o.MaxSockets == 0 {
		o.MaxSockets = DefaultMaxSockets
	}
	if o.Lang == "" {
		o.Lang = i18n.English
	}
	if o.Address == nil {
		o.Address = remoteAddress
	}
	h := &Boards{Options: o, metrics: newMetrics(o.Registerer), stopping: make(chan struct{}),
		boards: map[int64]*Board{}, byMAC: map[string]*Board{},
		bots: map[int64]namedVoice{}, keeping: make(chan struct{}, maxKeeping)}
	if o.PublicURL != "" {
		p, err := parsePublicURL(o.PublicURL)
		if err != nil {
			return nil, fmt.Errorf("boards cannot use the public URL: %w", err)
		}
		h.publicURL = &p
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// spawn runs f in a goroutine that Close waits for. After Close it returns false and does not
// run f.
func (h *Boards) spawn(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.work.Go(f)
	return true
}

// isStopping reports whether new connections and conversations are refused.
func (h *Boards) isStopping() bool {
	select {
	case <-h.stopping:
		return true
	default:
		return false
	}
}

// Refresh brings the registered boards in line with the database. It is called at the start, and
// after a device was approved, changed or removed, or a bot of one changed. After an error, some
// boards may be outdated.
func (h *Boards) Refresh(ctx context.Context) error {
	h.refreshing.Lock()
	defer h.refreshing.Unlock()
	h.forgetBots()
	known := map[int64]bool{}
	var fresh []store.Device
	for after := int64(0); ; {
		page, err := h.Store.Devices.Page(ctx, after, boardPageSize)
		if err != nil {
			return err
		}
		for _, d := range page {
			after = d.Number
			if d.Kind != Kind || d.Client == "" {
				continue
			}
			known[d.Number] = true
			if b := h.find(d.Number); b == nil {
				fresh = append(fresh, withoutFeatures(d))
			} else if err := b.refreshIfChanged(ctx, d); err != nil {
				return err
			}
		}
		if len(page) < boardPageSize {
			break
		}
	}
	for _, b := range h.list() {
		if !known[b.number] { // removed, or approved meanwhile
			if err := b.reload(ctx); err != nil {
				return err
			}
		}
	}
	for some := range slices.Chunk(fresh, boardPageSize) { // after the removals, which freed their slugs
		numbers := make([]int64, len(some))
		for i := range some {
			numbers[i] = some[i].Number
		}
		catalogs, err := h.Store.Devices.Catalogs(ctx, numbers)
		if err != nil {
			return err
		}
		for _, d := range some {
			if _, _, err := h.addOrUpdate(ctx, d,
				func(b *Board) *toolset { return b.parseToolset(catalogs[d.Number]) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// list returns all registered boards.
func (h *Boards) list() []*Board {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.boards))
}

// withoutFeatures drops the features, which are not used here, to save memory: there can be ten
// thousand boards.
func withoutFeatures(d store.Device) store.Device {
	d.Features = nil
	return d
}

// admit registers the board of an authenticated device and returns it. A device that was removed
// since then is not registered.
func (h *Boards) admit(ctx context.Context, d store.Device) (*Board, error) {
	b, fresh, err := h.addOrUpdate(ctx, d, func(b *Board) *toolset { return b.storedToolset(ctx) })
	if err == nil && fresh {
		err = b.reload(ctx)
	}
	if err == nil {
		b.setBuild(d)
	}
	return b, err
}

// addOrUpdate registers a board, or reloads it if it differs from d. loadToolset returns the tools
// that are known of it. fresh is true for a board that was added.
func (h *Boards) addOrUpdate(ctx context.Context, d store.Device,
	loadToolset func(*Board) *toolset) (b *Board, fresh bool, err error) {
	h.mu.Lock()
	if b = h.boards[d.Number]; b != nil {
		h.mu.Unlock()
		return b, false, b.refreshIfChanged(ctx, d)
	}
	b = &Board{boards: h, number: d.Number, mac: d.Hardware, device: withoutFeatures(d), toolset: emptyToolset}
	b.ctx, b.cancel = context.WithCancelCause(h.ctx)
	b.updateMu.Lock() // the board is not published yet
	defer b.updateMu.Unlock()
	h.boards[d.Number], h.byMAC[d.Hardware] = b, b
	h.mu.Unlock()
	can := loadToolset(b)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.toolset == emptyToolset { // unless the board has listed its tools meanwhile
		b.toolset = can
	}
	b.register()
	return b, true, nil
}

// remove unregisters and disconnects a board. Requires updateMu.
func (h *Boards) remove(b *Board) {
	h.mu.Lock()
	if h.boards[b.number] == b {
		delete(h.boards, b.number)
	}
	if h.byMAC[b.mac] == b {
		delete(h.byMAC, b.mac)
	}
	h.mu.Unlock()
	b.mu.Lock()
	b.removed = true
	if b.registration != nil {
		b.registration.Unregister()
		b.registration = nil
	}
	b.mu.Unlock()
	b.cancel(errRevoked)
	b.disconnect(errRevoked, true)
}

// find returns a registered board, or nil if there is none.
func (h *Boards) find(number int64) *Board {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boards[number]
}

// slugInvalid matches characters that a slug cannot have.
var slugInvalid = regexp.MustCompile(`[^a-z0-9]+`)

// slugOf returns the prefix of a board's tool names: its name in lower-case letters and digits, or
// defaultSlug if that gives no valid slug.
func slugOf(d store.Device) string {
	slug := strings.Trim(slugInvalid.ReplaceAllString(strings.ToLower(d.Name), "-"), "-")
	if slug = strings.Trim(slug[:min(len(slug), 24)], "-"); slug == "" || hub.CheckSlug(slug) != nil {
		return defaultSlug(d)
	}
	return slug
}

func defaultSlug(d store.Device) string { return "board-" + strconv.FormatInt(d.Number, 10) }

// uniqueSlug returns a slug that no other board has, whatever the boards are named.
func uniqueSlug(d store.Device) string {
	return defaultSlug(d) + "-" + strings.ReplaceAll(d.Hardware, ":", "")
}

// isWakeWord reports whether text is a configured wake word, ignoring case, spaces and
// punctuation: web pages send "嘿，你好呀".
func (h *Boards) isWakeWord(text string) bool {
	return words.Is(text, h.WakeWords)
}

// background returns a context for database work that no request waits for.
func (h *Boards) background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(h.ctx, databaseTimeout)
}

// stopAccepting refuses new connections and conversations, and returns all boards.
func (h *Boards) stopAccepting() []*Board {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.draining = true
		close(h.stopping)
	}
	return slices.Collect(maps.Values(h.boards))
}

// Drain refuses new conversations and ends the active ones. It waits for them until ctx ends, and
// cuts those that are left.
func (h *Boards) Drain(ctx context.Context) {
	all := h.stopAccepting()
	var ends sync.WaitGroup
	for _, b := range all {
		if c := b.conversation(); c != nil {
			ends.Go(func() { c.end(errServerStopping, true) })
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

// DrainFuncs returns a function for each connected board that ends its connection, so that the
// board connects again, perhaps to another instance. While the board listens or speaks, the
// function does nothing and returns false, unless atOnce is true.
func (h *Boards) DrainFuncs() []func(atOnce bool) bool {
	var out []func(bool) bool
	for _, b := range h.list() {
		if b.connection() == nil {
			continue
		}
		out = append(out, func(atOnce bool) bool {
			if c := b.conversation(); c != nil && !atOnce {
				c.mu.Lock()
				busy := c.speaking || c.listening
				c.mu.Unlock()
				if busy {
					return false
				}
			}
			b.disconnect(errServerStopping, true)
			return true
		})
	}
	return out
}

// Close cuts all connections and waits until no goroutine of the package runs.
func (h *Boards) Close() {
	all := h.stopAccepting()
	for _, b := range all {
		b.disconnect(errServerStopping, false)
	}
	h.cancel()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.work.Wait()
}

var (
	errRevoked     = errors.New("the board was removed, or has new credentials")
	errMovedAway   = errors.New("the board has connected to another instance")
	errReconnected = errors.New("the board has connected again")
)
