// Package bot is a kind of bot: an agent of somebody's OpenClaw gateway answers.
//
// The way of a turn: [Bot.Answer] gets the connection (line.go), subscribes to the
// asker's conversation and sends the message (answer.go). The events of the answer
// come to its run (run.go), which holds what the agent has said so far, and no queue:
// each event tells all of it, so that a slow asker holds nothing up and a lost event
// is made good by the next one. If the connection breaks, or nothing comes for a
// while, the gateway's own record of the conversation says how the answer goes on
// (record.go).
package bot

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// KindName is the name of the kind.
const KindName = "openclaw"

// Options are what the bots get from the house. All may be left out.
type Options struct {
	// Keep keeps a bot's setting device_identity, which is a secret between the bot and
	// the gateway at url. It is called once or twice in a bot's life: when its key is
	// made, and when the gateway has given it a token.
	Keep func(ctx context.Context, bot int64, url, deviceIdentity string) error
	// Dial returns how a bot's gateway may be connected to, as its address came from
	// the bot's owner. Nil, or a nil result: any address is good.
	Dial func(store.Bot) func(ctx context.Context, network, address string) (net.Conn, error)
	// Version is ours, for the gateway's list of devices.
	Version string
	Logger  *slog.Logger // nil: nobody wants to know

	// idle is how long a connection is kept that nobody uses; 0: 5 min. Quiet is how
	// long an answer says nothing before the gateway is asked what became of it; 0:
	// 20 s. Doubt is how long until it is asked again; 0: 1 s. Tests set them.
	idle, quiet, doubt time.Duration
}

const (
	// idleLimit is how long a connection is kept that nobody uses.
	idleLimit = 5 * time.Minute
	// quietLimit is how long an answer may say nothing before the gateway is asked
	// what became of it.
	quietLimit = 20 * time.Second
)

// Limits bound one bot's turns: a gateway on a small machine answers eight at a time
// in five seconds each.
var Limits = board.Limits{Concurrent: 8, Waiting: 32}

// Bots are all bots of the kind on this instance. They are safe for concurrent use.
type Bots struct {
	opt     Options
	metrics *metrics
	jobs    sync.WaitGroup // what goes on after turns have ended

	mu     sync.Mutex
	closed bool
	lines  map[int64]*line // by the numbers of bots
}

// New makes the kind. Close ends its connections.
func New(o Options) *Bots {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.idle, o.quiet, o.doubt = orElse(o.idle, idleLimit), orElse(o.quiet, quietLimit), orElse(o.doubt, doubtPause)
	return &Bots{opt: o, metrics: newMetrics(), lines: map[int64]*line{}}
}

// Kind is the kind, for the board.
func (b *Bots) Kind() board.Kind {
	return board.Kind{
		Name:     KindName,
		Settings: func() any { return new(Settings) },
		Build: func(sb store.Bot, settings any) (talk.Bot, error) {
			return b.Build(sb, *settings.(*Settings))
		},
		Limits: Limits,
	}
}

// Build makes a bot. One that was made before with the same gateway and the same
// key shares its connection; otherwise that of the older one ends as soon as its
// turns have.
func (b *Bots) Build(sb store.Bot, s Settings) (*Bot, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	url, err := client.ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	kept, err := readDevice(s.DeviceIdentity)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.lines[sb.Number]
	if old == nil || !old.serves(url, s.Token, kept) {
		if old != nil {
			old.retire()
		}
		b.lines[sb.Number] = newLine(b, sb, url, s.Token, kept)
	}
	return &Bot{bots: b, line: b.lines[sb.Number], settings: s, log: b.opt.Logger.With("bot", sb.Number)}, nil
}

// Close ends all connections. The turns should have ended before; what is to be told
// gateways about them is waited for.
func (b *Bots) Close() {
	b.mu.Lock()
	b.closed = true
	lines := b.lines
	b.lines = map[int64]*line{}
	b.mu.Unlock()
	for _, l := range lines {
		l.retire()
	}
	b.jobs.Wait()
}

func (b *Bots) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// job runs something that goes on after a turn has ended. It is bounded by its own
// time limit, and by as many turns as there can be.
func (b *Bots) job(what func()) { b.jobs.Go(what) }

// Status is how a bot is doing, for its owner.
type Status struct {
	Connected bool
	Since     time.Time // when it was connected; zero if it is not
	Heard     time.Time // when an agent last said something; zero if never
	// Paired says that the gateway has accepted us, as far as we know: it has once,
	// and has not said otherwise since.
	Paired bool
	// Trouble is what went wrong last, in words that say what to do; zero if nothing
	// did since it was connected. Command is what the gateway's owner has to run,
	// and is in the words too.
	Trouble talk.Say
	Command string
	Device  string // our device's id in the gateway's list; "" before the first use
	Version string // of the gateway, if it is known
}

// Status reports on a bot. It is false for one that was not asked on this instance
// since it was started.
func (b *Bots) Status(number int64) (Status, bool) {
	b.mu.Lock()
	l := b.lines[number]
	b.mu.Unlock()
	if l == nil {
		return Status{}, false
	}
	return l.status(), true
}
