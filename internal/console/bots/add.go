package bots

import (
	"net/http"
	"slices"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// kinds lists the kinds that can be added, those that people have heard of first.
func kinds(v *page.Visit) []string {
	there := v.House.Control.Board.Registry.Kinds()
	var out []string
	for _, name := range kindOrder {
		if slices.Contains(there, name) {
			out = append(out, name)
		}
	}
	for _, name := range there {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// addPage asks for the kind of a new bot, or what there is to say about one of a kind.
func addPage(v *page.Visit) {
	kind := v.FormValue("kind")
	if kind == "" {
		v.Show(http.StatusOK, kindsPage(v, kinds(v)))
		return
	}
	list, ok := describe(v, kind)
	if ok && admitted(v, kind) {
		v.Show(http.StatusOK, newPage(v, kind, formOf(list, nil)))
	}
}

// describe is what can be set about bots of a kind. If there is no such kind, that was
// answered.
func describe(v *page.Visit, kind string) ([]board.Setting, bool) {
	list, err := v.House.Control.Board.Registry.Describe(kind)
	if err != nil {
		v.Missing()
		return nil, false
	}
	return list, true
}

// admitted says whether the visitor may add a bot of a kind now: one that connects has
// a secret, which is shown. If not, they were sent to where they may.
func admitted(v *page.Visit, kind string) bool {
	return !v.House.Control.Board.Registry.Connects(kind) || v.Confirmed("/bots/new?kind="+kind)
}

// add adds a bot.
func add(v *page.Visit) {
	kind := v.FormValue("kind")
	list, ok := describe(v, kind)
	if !ok {
		return
	}
	f := formOf(list, nil)
	set := f.typed(v)
	b, err := v.House.Control.AddBot(v.Context(), v.Caller(), control.NewBot{Name: f.Name, Kind: kind, Description: f.Description, Settings: set})
	switch {
	case err != nil:
		wrong(v, err, func(status int, text string) {
			f.blame(v, text)
			v.Show(status, newPage(v, kind, f))
		})
	case b.SDKToken != "":
		v.Show(http.StatusOK, tokenPage(v, b.BotStatus, b.SDKToken, v.Say(sayAdded, b.Name)))
	default:
		v.To(at(b.BotStatus, "") + "?done=added")
	}
}
