package home

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// messageText is the type of messages in templates.
type messageText = i18n.Message

const (
	msgMap         = i18n.Message("What is plugged in")
	msgMapLeft     = i18n.Message("Asks and acts")
	msgMapRight    = i18n.Message("Answers and helps")
	msgMapNobody   = i18n.Message("Connect glasses, a board or a program")
	msgMapNothing  = i18n.Message("Add a bot")
	msgMapUnshared = i18n.Message("Nothing is shared with you yet")
	msgMapBound    = i18n.Message("bound")
	msgMapUsed     = i18n.Message("used lately")
	msgMapBad      = i18n.Message("failed last time")

	msgMapGlasses  = i18n.Message("Rokid glasses")
	msgMapConsole  = i18n.Message("You, here")
	msgMapLearn    = i18n.Message("Learn")
	msgMapBoards   = i18n.Message("%d more boards")
	msgMapNodes    = i18n.Message("%d more nodes")
	msgMapPrograms = i18n.Message("%d more programs")
	msgMapBots     = i18n.Message("%d more bots")
	msgMapServers  = i18n.Message("%d more tool servers")

	msgMapWearers = i18n.Message("%d wearers")
	msgMapWearer  = i18n.Message("1 wearer")
	msgMapOn      = i18n.Message("connected")
	msgMapOff     = i18n.Message("not connected")
	msgMapAsleep  = i18n.Message("asleep")
	msgMapReady   = i18n.Message("ready")
	msgMapProgram = i18n.Message("program")
	msgMapWith    = i18n.Message("Connected with: %s.")
)

// mapIcons are SVG paths of 24 by 24 drawings.
var mapIcons = map[string]string{
	control.MapGlasses:  "M3 9h7v5H3zM14 9h7v5h-7zM10 10.5h4",
	control.MapBoard:    "M8 4h8v10H8zM5 11a7 7 0 0 0 14 0M12 18v3",
	control.MapNode:     "M4 5h16v10H4zM9 20h6M12 15v5",
	control.MapProgram:  "M4 5h16v14H4zM8 10l2.5 2L8 14M13 14h3",
	control.MapConsole:  "M12 12a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM5 20a7 7 0 0 1 14 0",
	control.MapBot:      "M6 8h12v11H6zM12 4v4M9.5 13h.01M14.5 13h.01",
	control.MapUpstream: "M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z",
	control.MapLearn:    "M4 5h6a2 2 0 0 1 2 2v12a2 2 0 0 0-2-2H4zM20 5h-6a2 2 0 0 0-2 2v12a2 2 0 0 1 2-2h6z",
}

// mapPages are the pages of the kinds.
var mapPages = map[string]string{
	control.MapGlasses: "/bots", control.MapBoard: "/devices", control.MapNode: "/gateway", control.MapProgram: "/keys",
	control.MapConsole: "/activity", control.MapBot: "/bots", control.MapUpstream: "/tools/upstreams",
	control.MapLearn: "/learn",
}

// mapAddress returns the page of a thing.
func mapAddress(item *control.MapItem) string {
	base := mapPages[item.Kind]
	_, id, ok := strings.Cut(item.ID, ":")
	switch {
	case !ok || strings.HasPrefix(item.ID, "more:") || item.Kind == control.MapNode:
		return base
	case item.Kind == control.MapUpstream:
		id, _, _ = strings.Cut(id, ":") // a person's own sign-in to a shared one
		if item.Ref == "shim" {
			base = "/gateway/shims"
		}
	}
	return base + "/" + url.PathEscape(id)
}

// mapID returns the id of an element.
func mapID(id string) string { return "on-map-" + strings.ReplaceAll(id, ":", "-") }

// mapName returns what a thing is called.
func mapName(v *page.Visit, item *control.MapItem) string {
	if strings.HasPrefix(item.ID, "more:") {
		return v.Text(map[string]i18n.Message{control.MapBoard: msgMapBoards, control.MapNode: msgMapNodes,
			control.MapProgram: msgMapPrograms, control.MapBot: msgMapBots,
			control.MapUpstream: msgMapServers}[item.Kind], item.Count)
	}
	switch item.Kind {
	case control.MapGlasses:
		return v.Text(msgMapGlasses)
	case control.MapConsole:
		return v.Text(msgMapConsole)
	case control.MapLearn:
		return v.Text(msgMapLearn)
	}
	return item.Name
}

// mapState returns how a thing is, in words; a bot as everywhere else.
func mapState(v *page.Visit, g *control.Overview, item *control.MapItem) string {
	if strings.HasPrefix(item.ID, "more:") {
		return ""
	}
	for i := range g.Bots {
		if b := &g.Bots[i]; item.ID == "bot:"+strconv.FormatInt(b.Number, 10) {
			_, text := page.BotState(v, *b)
			if item.Problem != "" {
				text = v.Labelled(text, item.Problem)
			}
			return text
		}
	}
	switch {
	case item.Problem != "":
		return item.Problem
	case item.Kind == control.MapGlasses && item.Count == 1:
		return v.Text(msgMapWearer)
	case item.Kind == control.MapGlasses && item.Count > 0:
		return v.Text(msgMapWearers, item.Count)
	case item.Kind == control.MapProgram:
		return v.Text(msgMapProgram)
	case item.State == control.MapOn:
		return v.Text(msgMapOn)
	case item.State == control.MapOff && item.Kind == control.MapBoard:
		return v.Text(msgMapAsleep)
	case item.State == control.MapOff:
		return v.Text(msgMapOff)
	case item.Kind == control.MapUpstream:
		return v.Text(msgMapReady)
	}
	return ""
}

// mapConnections returns the names of what a thing is connected with, for those who cannot see the
// cables.
func mapConnections(v *page.Visit, m *control.Map, id string) string {
	var names []string
	for _, l := range m.LinksOf(id) {
		other := l.To
		if other == id {
			other = l.From
		}
		for _, side := range [][]control.MapItem{m.Left, m.Right} {
			for i := range side {
				if side[i].ID == other {
					names = append(names, mapName(v, &side[i]))
				}
			}
		}
	}
	if names == nil {
		return ""
	}
	return v.Text(msgMapWith, strings.Join(names, ", "))
}

// cableKind is a way in which the script draws cables.
type cableKind struct {
	class string
	text  i18n.Message
}

// mapCables returns the kinds of the cables that are drawn.
func mapCables(m *control.Map) (kinds []cableKind) {
	if slices.ContainsFunc(m.Links, func(l control.MapLink) bool { return l.Bound }) {
		kinds = append(kinds, cableKind{"bound", msgMapBound})
	}
	if slices.ContainsFunc(m.Links, func(l control.MapLink) bool { return l.Last != "" }) {
		kinds = append(kinds, cableKind{"used", msgMapUsed})
	}
	if slices.ContainsFunc(m.Links, func(l control.MapLink) bool { return l.Failed }) {
		kinds = append(kinds, cableKind{"used bad", msgMapBad})
	}
	return kinds
}

// cable is a link for the script of the page.
type cable struct {
	From   string `json:"from"` // id of an element
	To     string `json:"to"`
	Bound  bool   `json:"bound,omitempty"`
	Last   string `json:"last,omitempty"` // another one than before: something has travelled
	Failed bool   `json:"failed,omitempty"`
}

// mapLinks returns the links for the script.
func mapLinks(m *control.Map) string {
	list := make([]cable, len(m.Links))
	for i, l := range m.Links {
		list[i] = cable{mapID(l.From), mapID(l.To), l.Bound, l.Last, l.Failed}
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // texts and truth values always can be written
	}
	return string(text)
}
