// Package bot implements the bot kind "openclaw": an agent of an OpenClaw gateway answers.
//
// [Bot.Answer] gets the connection (gatewaylink.go), subscribes to the asker's conversation and
// sends the message (answer.go). The events of the answer go to its run (run.go), which holds the
// answer so far instead of a queue: each event repeats the whole answer, so that a slow asker
// blocks nothing and the next event makes up for a lost one. If the connection breaks, or no event
// comes for a while, the gateway's history of the conversation tells how the answer continued
// (history.go).
//
// Package wire names the version of OpenClaw that comments cite.
package bot

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// KindName is the name of the kind.
const KindName = "openclaw"

// Options are the dependencies of the bots. All are optional.
type Options struct {
	// SaveIdentity stores a bot's setting device_identity, which is a secret between the bot and
	// the gateway at url. It is called once or twice in a bot's life: when its key is created,
	// and when the gateway has issued a token.
	SaveIdentity func(ctx context.Context, bot int64, url, deviceIdentity string) error
	// Dial returns the dial function for a bot, whose gateway address comes from the bot's
	// owner. nil, or a nil result: no restriction.
	Dial func(store.Bot) func(ctx context.Context, network, address string) (net.Conn, error)
	// Version is Patchbay's version, for the gateway's device list.
	Version string
	Logger  *slog.Logger // nil discards

	// idleTimeout is how long an unused connection stays open; 0: 5 min. silenceTimeout is how
	// long an answer may be silent before its state is fetched from the gateway; 0: 20 s.
	// recheckDelay is the delay before it is fetched again; 0: 1 s. Tests set them.
	idleTimeout, silenceTimeout, recheckDelay time.Duration
}

const (
	// defaultIdleTimeout is how long an unused connection stays open.
	defaultIdleTimeout = 5 * time.Minute
	// defaultSilenceTimeout is how long an answer may be silent before its state is fetched.
	defaultSilenceTimeout = 20 * time.Second
)

// Limits bound one bot's turns: a gateway on a small machine answers eight at a time within five
// seconds each.
var Limits = hub.Limits{Concurrent: 8, Waiting: 32}

// Bots holds all bots of this kind on this instance. It is safe for concurrent use.
type Bots struct {
	opt     Options
	metrics *metrics
	jobs    sync.WaitGroup // background work after turns

	mu       sync.Mutex
	closed   bool
	gateways map[int64]*gatewayLink // by bot number
}

// New returns the bot kind. Close ends its connections.
func New(o Options) *Bots {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.idleTimeout, o.silenceTimeout, o.recheckDelay = orElse(o.idleTimeout,
		defaultIdleTimeout), orElse(o.silenceTimeout, defaultSilenceTimeout),
		orElse(o.recheckDelay, defaultRecheckDelay)
	return &Bots{opt: o, metrics: newMetrics(), gateways: map[int64]*gatewayLink{}}
}

// Kind returns the kind, for the hub.
func (b *Bots) Kind() hub.Kind {
	return hub.Kind{
		Name:     KindName,
		Settings: func() any { return new(Settings) },
		Build: func(sb store.Bot, settings any) (talk.Bot, error) {
			return b.Build(sb, *settings.(*Settings))
		},
		Check:   b.check,
		Resumes: true,
		Limits:  Limits,
	}
}

// Build returns a bot. It shares the connection of an earlier one with the same gateway and key;
// otherwise the earlier connection closes after its active turns.
func (b *Bots) Build(sb store.Bot, s Settings) (*Bot, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	url, err := client.ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	pin, err := client.ParsePin(s.TLSFingerprint, s.URL)
	if err != nil {
		return nil, err
	}
	kept, err := readDevice(s.DeviceIdentity)
	if err != nil {
		return nil, err
	}
	at := address{url: url, pin: pin, token: s.Token}
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.gateways[sb.Number]
	if old == nil || !old.matches(at, kept) {
		if old != nil {
			old.closeWhenUnused()
		}
		b.gateways[sb.Number] = newGatewayLink(b, sb, at, kept)
	}
	return &Bot{bots: b, gateway: b.gateways[sb.Number], settings: s, log: b.opt.Logger.With("bot", sb.Number)}, nil
}

// Close closes all connections. Turns should have ended before; it waits for pending
// notifications to gateways.
func (b *Bots) Close() {
	b.mu.Lock()
	b.closed = true
	lines := b.gateways
	b.gateways = map[int64]*gatewayLink{}
	b.mu.Unlock()
	for _, l := range lines {
		l.closeWhenUnused()
	}
	b.jobs.Wait()
}

func (b *Bots) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// goBackground runs work that outlives a turn. The work has its own timeout, and there is at
// most one per turn.
func (b *Bots) goBackground(what func()) { b.jobs.Go(what) }

// Status is the state of a bot, for its owner.
type Status struct {
	Connected  bool
	Since      time.Time // time of the connect; zero if not connected
	LastAnswer time.Time // last output of an agent; zero if never
	// Paired means that the gateway accepted this device and has not refused it since.
	Paired bool
	// Problem is the last error with its remedy; zero if there was none since the last connect.
	// Command is what the gateway's owner has to run; the text contains it too.
	Problem i18n.Text
	Command string
	// Code is the kind of the problem; empty if there is none. Certificate is the one that is not
	// accepted, if that is the problem.
	Code        client.Problem
	Certificate *client.Certificate
	Device      string // device id in the gateway's list; "" before the first use
	Version     string // of the gateway, if it is known
}

// Status returns the state of a bot. It returns false for one that has not been asked on this
// instance since its start.
func (b *Bots) Status(number int64) (Status, bool) {
	b.mu.Lock()
	l := b.gateways[number]
	b.mu.Unlock()
	if l == nil {
		return Status{}, false
	}
	return l.status(), true
}
