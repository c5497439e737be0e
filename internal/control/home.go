package control

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayNotForMachines = talk.Say{Zh: "这里看的是某个人自己的东西：请使用这个人的密钥。",
		En: "This is about what is somebody's own: use a key of that person."}
	sayNoGuide = talk.Say{Zh: "没有名为 %s 的向导，有 glasses、board、agent。",
		En: "There is no guide %s; there are glasses, board and agent."}
)

// maxOverviewRecords is how many of the last turns and calls the overview has.
const maxOverviewRecords = 5

// Overview is what somebody wants to know first about what is theirs.
type Overview struct {
	Bots []BotStatus `json:"bots"`
	// Devices counts the caller's, and Awake those that are connected.
	Devices int `json:"devices"`
	Awake   int `json:"devices_awake"`
	// Waiting counts the devices that show a code, whoever's they will be.
	Waiting int `json:"devices_waiting"`
	// Storage is what is wrong with the server's disk: disk_full, disk_errors or storage
	// (nothing can be kept), and for admins also disk_low.
	Storage string `json:"storage,omitempty"`
	// Due is how many reviews Learn has for today; nil: it is not known.
	Due *int `json:"reviews_due,omitempty"`
	// Pairings counts what waits for the caller's word at the gateway.
	Pairings int `json:"pairings"`
	// Upstreams are those that somebody has to look after.
	Upstreams []Upstream       `json:"upstreams"`
	Turns     []TurnRow        `json:"turns"` // the last ones
	Calls     []store.Call     `json:"calls"` // the same
	Names     map[int64]string `json:"-"`     // of the bots
}

// IsEmpty says that there is nothing yet to be seen.
func (g *Overview) IsEmpty() bool { return len(g.Bots) == 0 && g.Devices == 0 }

// Overview tells it. Admins too see what is their own.
func (s *Service) Overview(ctx context.Context, c Caller, _ struct{}) (g Overview, err error) {
	if s.Instance.Storage != nil {
		if g.Storage = s.Instance.Storage(); g.Storage == "disk_low" && !c.Admin {
			g.Storage = ""
		}
	}
	c.Admin = false
	if c.Person == "" {
		return g, Fail(Invalid, sayNotForMachines)
	}
	db := s.Hub.Store
	bots, err := s.Bots(ctx, c, struct{}{})
	if err != nil {
		return g, err
	}
	g.Bots, g.Names = bots.Bots, map[int64]string{}
	for _, b := range g.Bots {
		g.Names[b.Number] = b.Name
	}
	if g.Devices, err = db.Devices.Count(ctx, c.Person); err != nil {
		return g, err
	}
	for _, o := range s.Hub.Providers(c.Person) {
		if o.Owner == c.Person && o.Held && strings.HasPrefix(o.ID, hub.DeviceProviderPrefix) {
			g.Awake++
		}
	}
	now := time.Now()
	waiting, err := db.Devices.Waiting(ctx, now)
	if err != nil {
		return g, err
	}
	g.Waiting = len(waiting)
	for _, kind := range []string{store.RequestDevice, store.RequestSurface} {
		list, err := db.Peers.Requests(ctx, kind, c.Person, now)
		if err != nil {
			return g, err
		}
		g.Pairings += len(list)
	}
	if g.Upstreams, err = s.failing(ctx, c); err != nil {
		return g, err
	}
	traces, err := db.Traces.Find(ctx, store.TraceFilter{Owner: c.Person, Bot: c.Only}, maxOverviewRecords)
	if err != nil {
		return g, err
	}
	g.Turns = make([]TurnRow, len(traces))
	for i, t := range traces {
		t.Question, t.Answer = "", ""
		g.Turns[i] = TurnRow{Trace: t, BotName: g.Names[t.Bot]}
	}
	if g.Calls, err = db.Calls.Find(ctx, store.CallFilter{Person: c.Person, Bot: c.Only},
		maxOverviewRecords); err != nil {
		return g, err
	}
	for i := range g.Calls {
		g.Calls[i].Args = ""
	}
	if s.Due != nil && c.Only == 0 {
		due, err := s.Due(ctx, c.Person)
		if err != nil {
			return g, err
		}
		g.Due = &due
	}
	return g, nil
}

// failing lists the upstreams that somebody has to look after.
func (s *Service) failing(ctx context.Context, c Caller) ([]Upstream, error) {
	all, err := s.Hub.Store.Upstreams.ByOwner(ctx, c.Owner())
	if err != nil || s.Upstream == nil {
		return nil, err
	}
	out := []Upstream{}
	for _, u := range all {
		row := s.upstreamRow(c, u, nil, false)
		if row.State == UpstreamFailed || row.isWaiting() {
			out = append(out, row)
		}
	}
	return out, nil
}

// isWaiting reports whether the owner of the gateway that an upstream is has something to do.
func (u *Upstream) isWaiting() bool {
	for _, n := range u.Nodes {
		if n.State == NodePairing || n.State == NodeApproval || n.State == UpstreamFailed {
			return true
		}
	}
	return false
}

// The roads by which somebody comes to use Patchbay.
const (
	GuideGlasses = "glasses"
	GuideBoard   = "board"
	GuideAgent   = "agent"
)

// SetupPathRef names a path through the setup guide.
type SetupPathRef struct {
	Path string `path:"path"`
}

// LastActivity is the last activity on a path of the setup guide: it shows that the path was
// completed.
type LastActivity struct {
	// Arrived says that there was one, and Near that there was another before it: somebody
	// has to do a last thing.
	Arrived     bool      `json:"arrived"`
	AlmostThere bool      `json:"near,omitempty"`
	At          time.Time `json:"at,omitzero"`
	// Kind is what it was: turn, key, device, code, bot, node.
	Kind string `json:"kind,omitempty"`
	// Name is the bot's, the key's, the device's or the node's.
	Name string `json:"name,omitempty"`
	Bot  int64  `json:"bot,omitempty"`
}

// The kinds of a [Sign].
const (
	SignTurn   = "turn"   // a bot was asked, or has answered
	SignKey    = "key"    // a key was used
	SignDevice = "device" // a device has called
	SignCode   = "code"   // some device shows a code
	SignBot    = "bot"    // a bot has connected
	SignNode   = "node"   // a node, or an operator, has connected
)

// activitySince is how far back turns are looked at for a heartbeat.
const activitySince = 30 * 24 * time.Hour

// LastActivity returns the last activity on a path, of the caller's own things.
func (s *Service) LastActivity(ctx context.Context, c Caller, in SetupPathRef) (LastActivity, error) {
	c.Admin = false
	if c.Person == "" || c.Only != 0 {
		return LastActivity{}, Fail(Invalid, sayNotForMachines)
	}
	switch in.Path {
	case GuideGlasses:
		return s.glassesActivity(ctx, c)
	case GuideBoard:
		return s.boardActivity(ctx, c)
	case GuideAgent:
		return s.agentActivity(ctx, c)
	}
	return LastActivity{}, Fail(Missing, sayNoGuide, in.Path)
}

// glassesChannel is how traces name the channel of the glasses' platform.
const glassesChannel = "lingzhu"

// glassesActivity is the last question that came from glasses, or else the last use of a key
// for them: whoever is not bound yet asks no bot.
func (s *Service) glassesActivity(ctx context.Context, c Caller) (LastActivity, error) {
	last, err := s.Hub.Store.Traces.LastOnChannel(ctx, c.Person, glassesChannel)
	if err == nil {
		return s.turnActivity(ctx, last)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return LastActivity{}, err
	}
	keys, err := s.Hub.Store.Keys.ByPerson(ctx, c.Person)
	if err != nil {
		return LastActivity{}, err
	}
	var out LastActivity
	for _, k := range keys {
		for _, scope := range k.Scopes {
			if scope == account.ScopeLingzhu && k.Used.After(out.At) {
				out = LastActivity{AlmostThere: true, At: k.Used, Kind: SignKey, Name: k.Name}
			}
		}
	}
	return out, nil
}

// turnActivity is a turn as a heartbeat.
func (s *Service) turnActivity(ctx context.Context, t store.Trace) (LastActivity, error) {
	out := LastActivity{Arrived: true, At: t.At, Kind: SignTurn, Bot: t.Bot}
	b, err := s.Hub.Store.Bots.ByNumber(ctx, t.Bot)
	if errors.Is(err, store.ErrNotFound) {
		return out, nil // it was removed
	}
	out.Name = b.Name
	return out, err
}

// boardActivity is the caller's device that was seen last, or else that some device shows a
// code.
func (s *Service) boardActivity(ctx context.Context, c Caller) (LastActivity, error) {
	waiting, err := s.Hub.Store.Devices.Waiting(ctx, time.Now())
	if err != nil {
		return LastActivity{}, err
	}
	d, err := s.Hub.Store.Devices.Latest(ctx, c.Person)
	switch {
	case err == nil:
		return LastActivity{Arrived: true, At: d.Seen, Kind: SignDevice, Name: d.Name}, nil
	case !errors.Is(err, store.ErrNotFound):
		return LastActivity{}, err
	case len(waiting) > 0:
		return LastActivity{AlmostThere: true, At: waiting[0].Seen, Kind: SignCode}, nil
	}
	return LastActivity{}, nil
}

// agentActivity is the last of what agents do: a bot connects, a model answers, a node comes.
func (s *Service) agentActivity(ctx context.Context, c Caller) (LastActivity, error) {
	var out LastActivity
	bots, err := s.Bots(ctx, c, struct{}{})
	if err != nil {
		return out, err
	}
	for _, b := range bots.Bots {
		at := b.Heard()
		if at.IsZero() && b.Online && s.Hub.Registry.IsInbound(b.Kind) {
			at = time.Now() // nobody has written it down yet
		}
		if at.After(out.At) {
			out = LastActivity{Arrived: true, At: at, Kind: SignBot, Name: b.Name, Bot: b.Number}
		}
		if b.Kind != "openai" && b.Kind != "openclaw" {
			continue
		}
		list, err := s.Hub.Store.Traces.Find(ctx, store.TraceFilter{Owner: c.Person, Bot: b.Number,
			Outcome: "done", From: time.Now().Add(-activitySince)}, 1)
		if err != nil {
			return out, err
		}
		if len(list) > 0 && list[0].At.After(out.At) {
			out = LastActivity{Arrived: true, At: list[0].At, Kind: SignTurn, Name: b.Name, Bot: b.Number}
		}
	}
	peers, err := s.Hub.Store.Peers.ByOwner(ctx, c.Person, "", maxActivityPeers)
	for _, p := range peers {
		if p.Connected.After(out.At) {
			out = LastActivity{Arrived: true, At: p.Connected, Kind: SignNode, Name: p.Name}
		}
	}
	return out, err
}

// maxActivityPeers bounds how many nodes are looked at for a heartbeat.
const maxActivityPeers = 50
