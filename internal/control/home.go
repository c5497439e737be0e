package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNotForMachines = i18n.Message("This is about what is somebody's own: use a key of that person.")
	msgNoGuide        = i18n.Message("There is no guide %s; there are glasses, board, agent and program.")
)

// maxOverviewRecords limits the latest turns and calls of the overview.
const maxOverviewRecords = 5

// Overview is a summary of what belongs to a person.
type Overview struct {
	Bots []BotStatus `json:"bots"`
	// Devices counts the caller's devices, and Awake those that are connected.
	Devices int `json:"devices"`
	Awake   int `json:"devices_awake"`
	// Waiting counts the devices that show a pairing code, of all people.
	Waiting int `json:"devices_waiting"`
	// Storage is the problem of the server's disk: disk_full, disk_errors or storage (nothing can
	// be stored), and for admins also disk_low.
	Storage string `json:"storage,omitempty"`
	// Due is the number of reviews that Learn has for today; nil if it is not known.
	Due *int `json:"reviews_due,omitempty"`
	// Pairings counts the pairing requests that wait for the caller.
	Pairings int `json:"pairings"`
	// Approvals counts the calls that wait for the caller.
	Approvals int `json:"approvals"`
	// NeedsVoice reports whether a device of the caller has a bot that cannot talk, because no
	// speech engine hears, or none speaks.
	NeedsVoice bool `json:"needs_voice,omitempty"`
	// Upstreams are those that need attention.
	Upstreams []Upstream       `json:"upstreams"`
	Turns     []TurnRow        `json:"turns"` // the latest
	Calls     []Call           `json:"calls"` // the latest
	Names     map[int64]string `json:"-"`     // of the bots
	// Map is what is plugged in, and what is connected with what.
	Map Map `json:"map"`
}

// IsEmpty reports whether there is nothing to show.
func (g *Overview) IsEmpty() bool { return len(g.Bots) == 0 && g.Devices == 0 }

// Overview returns the caller's overview. For admins, too, it has only their own things.
func (s *Service) Overview(ctx context.Context, c Caller, _ struct{}) (g Overview, err error) {
	if s.Instance.Storage != nil {
		if g.Storage = s.Instance.Storage(); g.Storage == "disk_low" && !c.Admin {
			g.Storage = ""
		}
	}
	c.Admin = false
	if c.Person == "" {
		return g, problem.New(problem.Invalid, msgNotForMachines)
	}
	db := s.Hub.Store
	bots, err := s.BotStates(ctx, c)
	if err != nil {
		return g, err
	}
	g.Bots, g.Names = bots, map[int64]string{}
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
	if g.Approvals, err = db.Approvals.CountWaiting(ctx, c.Person, now); err != nil {
		return g, err
	}
	if g.NeedsVoice, err = s.needsVoice(ctx, c, g.Bots); err != nil {
		return g, err
	}
	upstreams, err := s.upstreamRows(ctx, c)
	if err != nil {
		return g, err
	}
	g.Upstreams = failing(upstreams)
	turns, err := db.Traces.Find(ctx, store.TraceFilter{Owner: c.Person, Bot: c.Only}, mapRecords)
	if err != nil {
		return g, err
	}
	g.Turns = make([]TurnRow, min(len(turns), maxOverviewRecords))
	for i := range g.Turns {
		g.Turns[i] = TurnRow{Trace: turns[i], BotName: g.Names[turns[i].Bot]}
		g.Turns[i].Question, g.Turns[i].Answer = "", ""
	}
	calls, err := db.Calls.Find(ctx, store.CallFilter{Person: c.Person, Bot: c.Only}, mapRecords)
	if err != nil {
		return g, err
	}
	g.Calls = make([]Call, min(len(calls), maxOverviewRecords))
	for i := range g.Calls {
		g.Calls[i] = Call{Call: calls[i]}
		g.Calls[i].Args = ""
	}
	s.fillTitles(g.Calls)
	if s.Due != nil && c.Only == 0 {
		due, err := s.Due(ctx, c.Person)
		if err != nil {
			return g, err
		}
		g.Due = &due
	}
	if c.Only != 0 { // a key for one bot sees nothing else
		return g, nil
	}
	g.Map, err = s.homeMap(ctx, c, &g, upstreams, turns, calls)
	return g, err
}

// needsVoice reports whether a device has a bot that cannot talk because speech engines are
// missing.
func (s *Service) needsVoice(ctx context.Context, c Caller, bots []BotStatus) (bool, error) {
	mute := map[int64]bool{}
	for _, b := range bots {
		if s.mute(b.Bot) == MuteEngines {
			mute[b.Number] = true
		}
	}
	for after := int64(0); len(mute) > 0; {
		list, err := s.Hub.Store.Devices.Search(ctx, store.DeviceSearch{Owner: c.Person, After: after,
			Limit: devicesAtOnce})
		if err != nil || len(list) == 0 {
			return false, err
		}
		for _, d := range list {
			if after = d.Number; mute[d.Bot] {
				return true, nil
			}
		}
	}
	return false, nil
}

// devicesAtOnce is how many devices are read at once; most often the first one decides.
const devicesAtOnce = 50

// upstreamRows lists the upstreams that a person sees.
func (s *Service) upstreamRows(ctx context.Context, c Caller) ([]Upstream, error) {
	all, err := s.upstreamsSeen(ctx, c, c.Owner())
	if err != nil || s.Upstream == nil {
		return nil, err
	}
	out := make([]Upstream, len(all))
	for i, u := range all {
		out[i] = s.upstreamRow(ctx, c, u, &upstreamView{})
	}
	return out, nil
}

// failing returns the upstreams that need attention. One that is shared with a person need not be
// used.
func failing(all []Upstream) []Upstream {
	out := []Upstream{}
	for i := range all {
		if row := &all[i]; (row.State == UpstreamFailed || row.isWaiting()) && !row.isOffered {
			out = append(out, *row)
		}
	}
	return out
}

// isWaiting reports whether a person has something to do for an upstream that is a gateway.
func (u *Upstream) isWaiting() bool {
	for _, n := range u.Nodes {
		switch n.State {
		case NodePairing, NodeApproval, NodeUntrusted, NodeChanged, UpstreamFailed:
			return true
		}
	}
	return false
}

// Paths through the setup guide.
const (
	GuideGlasses = "glasses"
	GuideBoard   = "board"
	GuideAgent   = "agent"
	GuideProgram = "program"
)

// SetupPathRef identifies a path through the setup guide.
type SetupPathRef struct {
	Path string `path:"path"`
}

// LastActivity is the last activity on a path of the setup guide. It shows that the path was
// completed.
type LastActivity struct {
	// Arrived reports whether there was one, and Near whether the activity of the step before was
	// seen: one step is left.
	Arrived     bool      `json:"arrived"`
	AlmostThere bool      `json:"near,omitempty"`
	At          time.Time `json:"at,omitzero"`
	// Kind is one of the Sign… constants.
	Kind string `json:"kind,omitempty"`
	// Name is that of the bot, the key, the device or the node.
	Name string `json:"name,omitempty"`
	Bot  int64  `json:"bot,omitempty"`
}

// Kinds of activity.
const (
	SignTurn   = "turn"   // a bot was asked, or answered
	SignKey    = "key"    // a key was used
	SignMade   = "made"   // a key was made
	SignDevice = "device" // a device called home
	SignCode   = "code"   // a device shows a pairing code
	SignBot    = "bot"    // a bot has connected
	SignNode   = "node"   // a node or an operator connected
)

// activitySince limits the age of turns that count as activity.
const activitySince = 30 * 24 * time.Hour

// LastActivity returns the last activity of the caller's own things on a path.
func (s *Service) LastActivity(ctx context.Context, c Caller, in SetupPathRef) (LastActivity, error) {
	c.Admin = false
	if c.Person == "" || c.Only != 0 {
		return LastActivity{}, problem.New(problem.Invalid, msgNotForMachines)
	}
	switch in.Path {
	case GuideGlasses:
		return s.glassesActivity(ctx, c)
	case GuideBoard:
		return s.boardActivity(ctx, c)
	case GuideAgent:
		return s.agentActivity(ctx, c)
	case GuideProgram:
		return s.programActivity(ctx, c)
	}
	return LastActivity{}, problem.New(problem.NotFound, msgNoGuide, in.Path)
}

// glassesChannel is the channel of the glasses' platform in traces.
const glassesChannel = "lingzhu"

// glassesActivity returns the last question from glasses, or else the last use of a key for them:
// glasses that are not bound yet ask no bot.
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

// turnActivity returns the activity that a turn is.
func (s *Service) turnActivity(ctx context.Context, t store.Trace) (LastActivity, error) {
	out := LastActivity{Arrived: true, At: t.At, Kind: SignTurn, Bot: t.Bot}
	b, err := s.Hub.Store.Bots.ByNumber(ctx, t.Bot)
	if errors.Is(err, store.ErrNotFound) {
		return out, nil // it was removed
	}
	out.Name = b.Name
	return out, err
}

// boardActivity returns the caller's device that was seen last, or else a device that shows a
// pairing code.
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

// agentActivity returns the last activity of agents: a bot connected, a model answered, a node
// connected.
func (s *Service) agentActivity(ctx context.Context, c Caller) (LastActivity, error) {
	var out LastActivity
	bots, err := s.BotStates(ctx, c)
	if err != nil {
		return out, err
	}
	for _, b := range bots {
		at := b.Heard()
		if at.IsZero() && b.Online && s.Hub.Registry.IsInbound(b.Kind) {
			at = time.Now() // not stored yet
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

// maxActivityPeers limits the nodes that are checked for activity.
const maxActivityPeers = 50

// programActivity returns the last use of a program's key, made by hand or by signing in, or else
// the newest such key.
func (s *Service) programActivity(ctx context.Context, c Caller) (LastActivity, error) {
	keys, err := s.Hub.Store.Keys.ByPerson(ctx, c.Person)
	if err != nil {
		return LastActivity{}, err
	}
	var out LastActivity
	now := time.Now()
	for _, k := range keys {
		if !k.Revoked.IsZero() || !k.Expires.IsZero() && k.Expires.Before(now) || !isOfAssistant(k.Scopes) {
			continue
		}
		one := LastActivity{AlmostThere: true, At: k.Created, Kind: SignMade, Name: k.Name}
		if !k.Used.IsZero() {
			one = LastActivity{Arrived: true, At: k.Used, Kind: SignKey, Name: k.Name}
		}
		if one.Arrived == out.Arrived && one.At.After(out.At) || one.Arrived && !out.Arrived {
			out = one
		}
	}
	return out, nil
}

// isOfAssistant reports whether AI programs use keys with some scopes. What glasses use is theirs.
func isOfAssistant(scopes []string) bool {
	return !slices.Contains(scopes, account.ScopeLingzhu) &&
		(slices.Contains(scopes, account.ScopeMCP) || slices.Contains(scopes, account.ScopeLearn))
}
