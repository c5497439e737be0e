package control

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/store"
)

// Map is what a person has plugged in, for a drawing: what asks and acts on the left, what answers
// and is used on the right, and what is connected with what.
type Map struct {
	Left  []MapItem `json:"left"`
	Right []MapItem `json:"right"`
	Links []MapLink `json:"links"`
}

// MapItem is a thing, or several of a kind.
type MapItem struct {
	// ID is "bot:1", "device:2", "node:…", "key:…", "upstream:3", "glasses", "console" (the person
	// in the console or a terminal), "learn", or "more:" with the kind of the others.
	ID   string `json:"id"`
	Kind string `json:"kind"` // one of the Map… kinds
	Name string `json:"name,omitempty"`
	// State is one of the Map… states.
	State   string `json:"state"`
	Problem string `json:"problem,omitempty"`
	// Count is how many things the item stands for: wearers of glasses, or those of the kind that
	// have no item of their own. 0: it is one thing.
	Count int `json:"count,omitempty"`
	// Ref is the kind of an upstream, which says where its page is.
	Ref string `json:"-"`

	used time.Time
}

// Kinds of things.
const (
	MapGlasses  = "glasses"
	MapBoard    = "board"
	MapNode     = "node"
	MapProgram  = "program"
	MapConsole  = "console"
	MapBot      = "bot"
	MapUpstream = "upstream"
	MapLearn    = "learn"
)

// States of things. Idle is a thing that cannot be connected, or is not needed now.
const (
	MapOn   = "on"
	MapOff  = "off"
	MapBad  = "bad"
	MapIdle = "idle"
)

// MapLink is a connection: what is bound to each other, or was used lately.
type MapLink struct {
	From  string `json:"from"` // id of an item
	To    string `json:"to"`
	Bound bool   `json:"bound"` // a binding, whether it was used or not
	// Last is the id of the last turn or call, and At its time; empty if there was none lately.
	Last   string    `json:"last,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Failed bool      `json:"failed,omitempty"` // the last one failed
}

const (
	// mapItems limits the items of a kind; the others are one item.
	mapItems = 8
	// mapDevices limits the devices that are looked at.
	mapDevices = 60
	// mapRecords limits the turns, and the calls, that are looked at.
	mapRecords = 40
	// mapUse is how long a use is shown, and a program without another trace of it.
	mapUse        = time.Hour
	mapProgramUse = 7 * 24 * time.Hour
)

// mapBuilder collects the things and their links.
type mapBuilder struct {
	items    map[string]*MapItem
	order    []string
	links    map[[2]string]*MapLink
	hardware map[string]string // ids of devices by their hardware addresses
}

func (b *mapBuilder) add(item MapItem) {
	if b.items[item.ID] == nil {
		b.items[item.ID] = &item
		b.order = append(b.order, item.ID)
	}
}

func (b *mapBuilder) link(from, to string) *MapLink {
	key := [2]string{from, to}
	if b.links[key] == nil {
		b.links[key] = &MapLink{From: from, To: to}
	}
	return b.links[key]
}

// use records a turn or call; records come newest first.
func (b *mapBuilder) use(from, to, id string, at time.Time, failed bool) {
	if b.items[from] == nil || b.items[to] == nil {
		return
	}
	if l := b.link(from, to); l.Last == "" {
		l.Last, l.At, l.Failed = id, at, failed
	}
	for _, end := range []string{from, to} {
		if item := b.items[end]; at.After(item.used) {
			item.used = at
		}
	}
}

// homeMap returns the map of a person's things. The upstreams are those that the person sees; turns
// and calls are the last ones, the newest first.
func (s *Service) homeMap(ctx context.Context, c Caller, g *Overview, upstreams []Upstream, turns []store.Trace,
	calls []store.Call) (Map, error) {
	b := &mapBuilder{items: map[string]*MapItem{}, links: map[[2]string]*MapLink{}, hardware: map[string]string{}}
	for i := range g.Bots {
		b.addBot(&g.Bots[i])
	}
	for i := range upstreams {
		b.addUpstream(&upstreams[i])
	}
	if g.Due != nil {
		b.add(MapItem{ID: MapLearn, Kind: MapLearn, State: MapIdle})
	}
	now := time.Now()
	devices, err := s.addDevices(ctx, c, b)
	if err == nil {
		err = s.addGlasses(ctx, c, b)
	}
	if err == nil {
		err = s.addPrograms(ctx, c, b, now)
	}
	if err != nil {
		return Map{}, err
	}
	b.addUses(turns, calls, now.Add(-mapUse))
	return b.build(map[string]int{MapBoard: max(g.Devices-devices, 0)}), nil
}

func (b *mapBuilder) addBot(bot *BotStatus) {
	item := MapItem{ID: botID(bot.Number), Kind: MapBot, Name: bot.Name, State: MapOff}
	switch {
	case bot.Problem != "":
		item.State, item.Problem = MapBad, bot.Problem
	case bot.Online && bot.State == BotUnasked:
		item.State = MapIdle
	case bot.Online:
		item.State = MapOn
	}
	b.add(item)
}

func (b *mapBuilder) addUpstream(u *Upstream) {
	item := MapItem{ID: u.Provider, Kind: MapUpstream, Name: u.Slug, State: MapOn, Ref: u.Kind}
	switch u.State {
	case UpstreamFailed:
		item.State, item.Problem = MapBad, u.Problem
		if u.isOffered { // nobody has to use it
			item.State, item.Problem = MapOff, ""
		}
	case UpstreamReady, UpstreamElsewhere:
	case UpstreamIdle:
		item.State = MapIdle
	default:
		item.State = MapOff
	}
	b.add(item)
}

// addDevices adds voice boards and nodes, and returns the number of boards. Devices that are
// connected come first.
func (s *Service) addDevices(ctx context.Context, c Caller, b *mapBuilder) (int, error) {
	held := map[string]bool{}
	for _, p := range s.Hub.Providers(c.Person) {
		if p.Owner != c.Person {
			continue
		}
		held[p.ID] = p.Held
		if strings.HasPrefix(p.ID, "node:") {
			b.add(MapItem{ID: p.ID, Kind: MapNode, Name: cmp.Or(p.Title, p.Slug), State: awakeState(p.Held)})
		}
	}
	list, err := s.Hub.Store.Devices.Search(ctx, store.DeviceSearch{Owner: c.Person, Limit: mapDevices})
	if err != nil {
		return 0, err
	}
	for _, d := range list {
		id := hub.DeviceProviderID(d.Number)
		b.hardware[d.Hardware] = id
		b.add(MapItem{ID: id, Kind: MapBoard, Name: cmp.Or(d.Name, d.Hardware), State: awakeState(held[id]),
			used: d.Seen})
		if bot := botID(d.Bot); b.items[bot] != nil {
			b.link(id, bot).Bound = true
		}
	}
	return len(list), nil
}

func awakeState(held bool) string {
	if held {
		return MapOn
	}
	return MapOff
}

// addGlasses adds one item for all glasses that are bound.
func (s *Service) addGlasses(ctx context.Context, c Caller, b *mapBuilder) error {
	counts, err := s.Hub.Store.Bindings.Counts(ctx, c.Person)
	if err != nil {
		return err
	}
	item := MapItem{ID: MapGlasses, Kind: MapGlasses, State: MapIdle}
	for bot, n := range counts {
		if id := botID(bot); n > 0 && b.items[id] != nil {
			item.Count += n
			b.link(MapGlasses, id).Bound = true
		}
	}
	if item.Count > 0 {
		b.add(item)
	}
	return nil
}

// addPrograms adds the keys that were used lately.
func (s *Service) addPrograms(ctx context.Context, c Caller, b *mapBuilder, now time.Time) error {
	keys, err := s.Hub.Store.Keys.ByPerson(ctx, c.Person)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Revoked.IsZero() && now.Sub(k.Used) < mapProgramUse && slices.ContainsFunc(k.Scopes, isOfProgram) {
			b.add(MapItem{ID: "key:" + k.ID, Kind: MapProgram, Name: k.Name, State: MapIdle, used: k.Used})
		}
	}
	return nil
}

// isOfProgram reports whether keys with a scope are of programs. What asks with other keys is on
// the map itself: glasses and nodes.
func isOfProgram(scope string) bool {
	return scope != account.ScopeLingzhu && scope != account.ScopeNode
}

// addUses adds what was used since a time.
func (b *mapBuilder) addUses(turns []store.Trace, calls []store.Call, since time.Time) {
	for i := range turns {
		if t := &turns[i]; t.At.After(since) {
			b.use(b.asker(t.Channel, t.Person), botID(t.Bot), t.Turn, t.At, t.Outcome == "failed")
		}
	}
	for i := range calls {
		if c := &calls[i]; c.At.After(since) {
			b.use(b.caller(c), c.Provider, c.ID, c.At, c.Outcome == "failed")
		}
	}
}

// botID returns the id of a bot's item.
func botID(number int64) string { return "bot:" + strconv.FormatInt(number, 10) }

// asker returns the id of the thing that asked.
func (b *mapBuilder) asker(channel, person string) string {
	switch channel {
	case "lingzhu":
		b.add(MapItem{ID: MapGlasses, Kind: MapGlasses, State: MapIdle})
		return MapGlasses
	case "xiaozhi":
		_, hardware, _ := strings.Cut(person, ":")
		return b.hardware[hardware]
	case ChannelConsole, ChannelCLI:
		b.add(MapItem{ID: MapConsole, Kind: MapConsole, State: MapIdle})
		return MapConsole
	}
	return ""
}

// caller returns the id of the thing that called.
func (b *mapBuilder) caller(c *store.Call) string {
	switch {
	case c.Bot != 0:
		return botID(c.Bot)
	case c.Key != "":
		return "key:" + c.Key
	}
	return b.asker(c.Channel, "")
}

// build sorts the things, and makes one item of those of a kind that are too many. rest are how
// many more of a kind were not looked at.
func (b *mapBuilder) build(rest map[string]int) Map {
	byKind := map[string][]*MapItem{}
	for _, id := range b.order {
		item := b.items[id]
		byKind[item.Kind] = append(byKind[item.Kind], item)
	}
	shown := map[string]string{} // the item that stands for each
	side := func(kinds ...string) (out []MapItem) {
		out = []MapItem{}
		for _, kind := range kinds {
			list := byKind[kind]
			slices.SortStableFunc(list, compareItems)
			more := rest[kind]
			for i, item := range list {
				if i >= mapItems && (len(list) > mapItems+1 || more > 0) {
					shown[item.ID] = "more:" + kind
					more++
					continue
				}
				shown[item.ID] = item.ID
				out = append(out, *item)
			}
			if more > 0 {
				out = append(out, MapItem{ID: "more:" + kind, Kind: kind, State: MapIdle, Count: more})
			}
		}
		return out
	}
	m := Map{Left: side(MapGlasses, MapBoard, MapNode, MapProgram, MapConsole),
		Right: side(MapBot, MapUpstream, MapLearn), Links: []MapLink{}}
	merged := &mapBuilder{links: map[[2]string]*MapLink{}}
	for _, l := range b.links {
		to := merged.link(shown[l.From], shown[l.To])
		to.Bound = to.Bound || l.Bound
		if l.At.After(to.At) {
			to.Last, to.At, to.Failed = l.Last, l.At, l.Failed
		}
	}
	for _, l := range merged.links {
		if l.From != "" && l.To != "" {
			m.Links = append(m.Links, *l)
		}
	}
	slices.SortFunc(m.Links, func(a, b MapLink) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return m
}

// compareItems puts first what is wrong, then what is connected, then what was used last.
func compareItems(a, b *MapItem) int {
	rank := func(item *MapItem) int { return slices.Index([]string{MapBad, MapOn, MapIdle, MapOff}, item.State) }
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.used.Compare(a.used), cmp.Compare(a.Name, b.Name))
}

// LinksOf returns the links of an item.
func (m *Map) LinksOf(id string) (out []MapLink) {
	for _, l := range m.Links {
		if l.From == id || l.To == id {
			out = append(out, l)
		}
	}
	return out
}
