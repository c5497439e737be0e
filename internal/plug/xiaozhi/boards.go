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
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/store"
	"patchbay/internal/talk"
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
func OutletOf(number int64) string { return board.DeviceOutlet(number) }

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

	// Transport is how boards connect whose owner chose nothing; empty:
	// store.TransportSocket.
	Transport string
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
}

// Boards knows all approved boards, those that are connected to this instance and
// those that sleep, and offers each as a provider of tools. It is safe for concurrent
// use.
type Boards struct {
	Options
	metrics *metrics
	public  *place // nil: where a board came to
	known   repertoires

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // every goroutine that this package starts; see spawn

	stopping   chan struct{} // closed when no conversation begins any more
	refreshing sync.Mutex    // one Refresh at a time

	// mu is taken while mu of a board is held, and never the other way round.
	mu       sync.Mutex
	boards   map[int64]*Board
	byMAC    map[string]*Board
	sockets  int // WebSockets that are open
	draining bool
	closed   bool // nothing is spawned any more
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
	if o.Address == nil {
		o.Address = remoteAddress
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

// spawn runs f in a goroutine for which Close waits. It is false, and f does not run,
// if that is too late.
func (h *Boards) spawn(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.work.Go(f)
	return true
}

// stops says whether no connection and no conversation may begin any more.
func (h *Boards) stops() bool {
	select {
	case <-h.stopping:
		return true
	default:
		return false
	}
}

// Refresh makes the boards that are plugged in those that the database has. It is
// called at the start, and whenever a device was approved, changed or removed. With
// an error, some boards may be as they were.
func (h *Boards) Refresh(ctx context.Context) error {
	h.refreshing.Lock()
	defer h.refreshing.Unlock()
	known := map[int64]bool{}
	var fresh []store.Device
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
			if b := h.find(d.Number); b == nil {
				fresh = append(fresh, slim(d))
			} else if err := b.look(ctx, d); err != nil {
				return err
			}
		}
		if len(page) < pageOfBoards {
			break
		}
	}
	for _, b := range h.all() {
		if !known[b.number] { // it was removed, or has been approved meanwhile
			if err := b.lookAgain(ctx); err != nil {
				return err
			}
		}
	}
	for some := range slices.Chunk(fresh, pageOfBoards) { // those that are gone have left them their names
		numbers := make([]int64, len(some))
		for i := range some {
			numbers[i] = some[i].Number
		}
		catalogs, err := h.Store.Devices.Catalogs(ctx, numbers)
		if err != nil {
			return err
		}
		for _, d := range some {
			if _, _, err := h.plug(ctx, d, func(b *Board) *repertoire { return b.told(catalogs[d.Number]) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// all are the boards that are plugged in.
func (h *Boards) all() []*Board {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.boards))
}

// slim is a device without what nobody here needs: there can be ten thousand.
func slim(d store.Device) store.Device {
	d.Features = nil
	return d
}

// admit plugs in the board of a device that was found to be the one that it says. It
// may have been removed since, and then is not plugged in.
func (h *Boards) admit(ctx context.Context, d store.Device) (*Board, error) {
	b, fresh, err := h.plug(ctx, d, func(b *Board) *repertoire { return b.remembered(ctx) })
	if err == nil && fresh {
		err = b.lookAgain(ctx)
	}
	if err == nil {
		b.setBuild(d)
	}
	return b, err
}

// plug plugs a board in, or takes over what has changed about it. Remembered finds what it was
// found to be able to.
func (h *Boards) plug(ctx context.Context, d store.Device, remembered func(*Board) *repertoire) (b *Board, fresh bool, err error) {
	h.mu.Lock()
	if b = h.boards[d.Number]; b != nil {
		h.mu.Unlock()
		return b, false, b.look(ctx, d)
	}
	b = &Board{house: h, number: d.Number, mac: d.Hardware, device: slim(d), can: bare}
	b.ctx, b.cancel = context.WithCancelCause(h.ctx)
	b.deciding.Lock() // nobody else knows the board yet
	defer b.deciding.Unlock()
	h.boards[d.Number], h.byMAC[d.Hardware] = b, b
	h.mu.Unlock()
	can := remembered(b)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.can == bare { // and has not said anything else meanwhile
		b.can = can
	}
	b.plugIn()
	return b, true, nil
}

// unplug forgets a board that was removed. With deciding held.
func (h *Boards) unplug(b *Board) {
	h.mu.Lock()
	if h.boards[b.number] == b {
		delete(h.boards, b.number)
	}
	if h.byMAC[b.mac] == b {
		delete(h.byMAC, b.mac)
	}
	h.mu.Unlock()
	b.mu.Lock()
	b.gone = true
	if b.socket != nil {
		b.socket.Unplug()
		b.socket = nil
	}
	b.mu.Unlock()
	b.cancel(errRevoked)
	b.cut(errRevoked, true)
}

// find finds a board that is plugged in; nil if there is none.
func (h *Boards) find(number int64) *Board {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boards[number]
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

// ownSlug is one that no other board has, not even one that is named like a plain one.
func ownSlug(d store.Device) string {
	return plainSlug(d) + "-" + strings.ReplaceAll(d.Hardware, ":", "")
}

// wakeWord reports whether a text is one of those with which boards are woken. How it is
// punctuated does not matter: pages greet with "嘿，你好呀".
func (h *Boards) wakeWord(text string) bool {
	text = lettersOf(text)
	return text != "" && slices.ContainsFunc(h.WakeWords, func(w string) bool { return lettersOf(w) == text })
}

// lettersOf is the letters and digits of a text, in lower case.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
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
	return slices.Collect(maps.Values(h.boards))
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

// Departures has a function for each board that is connected, which ends its connection, so
// that it makes another one, to whichever instance it finds then. While it is spoken to it
// is left alone, unless at once is true; the function is false then.
func (h *Boards) Departures() []func(atOnce bool) bool {
	var out []func(bool) bool
	for _, b := range h.all() {
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
			b.cut(errDrained, true)
			return true
		})
	}
	return out
}

// Close cuts all connections and waits until nothing runs any more.
func (h *Boards) Close() {
	all := h.refuse()
	for _, b := range all {
		b.cut(errDrained, false)
	}
	h.cancel()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.work.Wait()
}

var (
	errRevoked   = errors.New("the board was removed, or has new credentials")
	errElsewhere = errors.New("the board has connected to another instance")
	errNewer     = errors.New("the board has connected again")
)
