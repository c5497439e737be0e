package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"patchbay/internal/i18n"
)

const msgAnkiAdded = i18n.Message("a program for Anki adds a note to the deck Reading, and finds it: AnkiConnect's API is at %s")

// addFromAnki does what a program for Anki does, such as a dictionary in a browser: it adds a note
// of a word through AnkiConnect's API, and searches for it.
func (st *demoRun) addFromAnki(ctx context.Context) error {
	key, err := st.newKey(ctx, "dictionary", "learn")
	if err != nil {
		return err
	}
	call := func(action string, params, into any) error {
		var out struct {
			Result json.RawMessage
			Error  *string
		}
		if err := postJSON(ctx, st.url+"/anki", nil, map[string]any{"action": action, "version": 6, "key": key,
			"params": params}, &out); err != nil {
			return fmt.Errorf("%s: %w", action, err)
		}
		if out.Error != nil {
			return errors.New(*out.Error)
		}
		return json.Unmarshal(out.Result, into)
	}
	var deck, note int64
	if err := call("createDeck", map[string]string{"deck": "Reading"}, &deck); err != nil {
		return err
	}
	if err := call("addNote", map[string]any{"note": map[string]any{"deckName": "Reading", "modelName": "Basic",
		"fields": map[string]string{"Front": "灯塔", "Back": "<b>dēngtǎ</b>, a lighthouse"}, "tags": []string{"yomitan"},
	}}, &note); err != nil {
		return err
	}
	var found []int64
	if err := call("findNotes", map[string]string{"query": "deck:Reading tag:yomitan"}, &found); err != nil {
		return err
	}
	if !slices.Equal(found, []int64{note}) {
		return fmt.Errorf("the note %d was added, and %v found", note, found)
	}
	st.line("⇢", msgAnkiAdded.In(st.sh.lang, st.url+"/anki"))
	return nil
}
