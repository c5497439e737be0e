package ankiconnect

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
)

// Actions that need no entry in the table.
const (
	actionMulti      = "multi"
	actionPermission = "requestPermission"
)

// action is what a client may ask for.
type action struct {
	// tools are those of Learn that do the same: whoever may not call them may not do this.
	tools []string
	do    func(x *exchange, ctx context.Context, params json.RawMessage) (any, error)
	// refused says why it is not done here; empty if it is.
	refused string
}

// doing returns an action with parameters of the type of in.
func doing[T any](tool string, do func(x *exchange, ctx context.Context, in T) (any, error)) *action {
	run := func(x *exchange, ctx context.Context, params json.RawMessage) (any, error) {
		var in T
		if err := decode(params, &in); err != nil {
			return nil, err
		}
		return do(x, ctx, in)
	}
	return &action{tools: []string{tool}, do: run}
}

// and returns the action for those who may call another tool, too.
func (a *action) and(tool string) *action {
	a.tools = append(a.tools, tool)
	return a
}

// none are the parameters of actions without.
type none struct{}

// Tools of Learn by whose rules actions are allowed.
const (
	toolList   = "list_knowledge_points"
	toolGet    = "get_knowledge_point"
	toolAdd    = "create_knowledge_point"
	toolUpdate = "update_knowledge_point"
	toolDelete = "delete_knowledge_point"
	toolEdit   = "edit_knowledge_points"
	toolReview = "submit_review"
	toolDecks  = "list_decks"
	toolDeck   = "save_deck"
	toolDrop   = "delete_deck"
	toolTags   = "list_tags"
	toolStats  = "learning_stats"
)

// actions are all that are known; init fills it, as apiReflect reads it.
var actions map[string]*action

func init() {
	actions = map[string]*action{}
	for _, table := range []map[string]*action{generalActions(), deckActions(), modelActions(), noteActions(),
		tagActions(), cardActions(), mediaActions(), statActions(), refusedActions()} {
		maps.Copy(actions, table)
	}
}

// Names returns the names of all actions that are done, and of those that are refused, sorted.
func Names() (done, refused []string) {
	done = []string{actionMulti, actionPermission}
	for name, a := range actions {
		if a.refused == "" {
			done = append(done, name)
		} else {
			refused = append(refused, name)
		}
	}
	slices.Sort(done)
	slices.Sort(refused)
	return done, refused
}

func generalActions() map[string]*action {
	return map[string]*action{
		"version": doing(toolDecks, func(*exchange, context.Context, none) (any, error) { return Version, nil }),
		"getProfiles": doing(toolDecks, func(x *exchange, _ context.Context, _ none) (any, error) {
			return []string{x.profile}, nil
		}),
		"getActiveProfile": doing(toolDecks, func(x *exchange, _ context.Context, _ none) (any, error) {
			return x.profile, nil
		}),
		"loadProfile": doing(toolDecks, func(x *exchange, _ context.Context, in struct {
			Name string `json:"name"`
		}) (any, error) {
			return in.Name == x.profile, nil
		}),
		// There is nothing to send: what was acknowledged is stored.
		"sync":             doing(toolDecks, func(*exchange, context.Context, none) (any, error) { return nil, nil }),
		"reloadCollection": doing(toolDecks, func(*exchange, context.Context, none) (any, error) { return nil, nil }),
		"apiReflect":       doing(toolDecks, (*exchange).reflect),
		"guiBrowse": doing(toolList, func(x *exchange, ctx context.Context, in queryParams) (any, error) {
			return x.findCards(ctx, in)
		}),
	}
}

// reflect lists the actions.
func (x *exchange) reflect(_ context.Context, in struct {
	Scopes  []string `json:"scopes"`
	Actions []string `json:"actions"`
}) (any, error) {
	if in.Scopes == nil {
		return nil, clientError("scopes has invalid value")
	}
	out := map[string]any{"scopes": []string{}}
	if slices.Contains(in.Scopes, "actions") {
		names, _ := Names()
		if in.Actions != nil {
			names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(in.Actions, n) })
		}
		out["scopes"], out["actions"] = []string{"actions"}, append([]string{}, names...)
	}
	return out, nil
}

// refusedActions are those that clients know and that cannot be done here, with the reason.
func refusedActions() map[string]*action {
	const (
		window   = "Patchbay has no window; open the pages of Learn in a browser"
		path     = "Patchbay reads and writes no files of its machine; use the pages of Learn, or /api/v1/learn"
		memory   = "Patchbay computes this from reviews (FSRS); it cannot be set"
		settings = "use the settings of the deck in Patchbay"
	)
	out := map[string]*action{}
	for reason, names := range map[string][]string{
		window: {"guiEditNote", "guiSelectedNotes", "guiSelectNote", "guiSelectCard", "guiAddCards", "guiReviewActive",
			"guiCurrentCard", "guiStartCardTimer", "guiShowQuestion", "guiShowAnswer", "guiAnswerCard", "guiUndo",
			"guiDeckOverview", "guiDeckBrowser", "guiDeckReview", "guiImportFile", "guiExitAnki", "guiCheckDatabase",
			"guiPlayAudio", "guiAddNoteSetData"},
		path:     {"exportPackage", "importPackage", "getMediaDirPath"},
		memory:   {"setEaseFactors", "setSpecificValueOfCard", "insertReviews", "forgetCards", "relearnCards"},
		settings: {"saveDeckConfig", "setDeckConfigId", "cloneDeckConfigId", "removeDeckConfigId"},
	} {
		for _, name := range names {
			out[name] = &action{refused: reason}
		}
	}
	return out
}
