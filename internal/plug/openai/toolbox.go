package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
)

const (
	// listToolsTimeout limits how long a turn waits for the list of tools.
	listToolsTimeout = 5 * time.Second
	// maxDescription is the maximum length of a function's description at OpenAI, in characters
	// ("Expected a string with maximum length 1024"; rusiaaman/wcgw, issue 51).
	maxDescription = 1024
	// maxTitle limits the display name of a tool in notes, in characters.
	maxTitle = 40
	// maxNamesLogged limits how many omitted tools are named in the log.
	maxNamesLogged = 20
)

// toolboxFunctions returns the functions of the toolbox that can be offered besides our own. If the
// list fails, the model is asked without them.
func (b *Bot) toolboxFunctions(ctx context.Context, turn *talk.Turn, own []function) []function {
	if b.toolbox == nil || !b.settings.tools() || b.withoutTools.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listToolsTimeout)
	defer cancel()
	list, err := b.toolbox.List(ctx, turn)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			b.log.WarnContext(ctx, "the list of tools is not to be had, so the model is asked without", "turn", turn.ID,
				"error", b.redact(err.Error()))
		}
		return nil
	}
	var out []function
	var left []string
	for i := range list {
		o := &list[i]
		f, err := b.toFunction(o, own, out)
		if err != nil {
			left = append(left, fmt.Sprintf("%s (%v)", oneLine(o.Name, 64), err))
			continue
		}
		out = append(out, f)
	}
	if why := b.omitted.changed(left); why != "" {
		b.log.WarnContext(ctx, "tools are not offered to the model", "model", b.settings.Model, "tools", why)
	}
	return out
}

// toFunction converts a tool to a function, or returns why it cannot be offered.
func (b *Bot) toFunction(o *toolbox.Named, own, others []function) (function, error) {
	if !toolbox.FunctionName.MatchString(o.Name) {
		return function{}, errors.New("a name that models cannot call")
	}
	_, ours := find(own, o.Name)
	_, theirs := find(others, o.Name)
	if _, device := commandTools[o.Name]; ours || theirs || device || o.Name == toolSuggest {
		return function{}, errors.New("the name is taken")
	}
	f := function{name: o.Name, title: displayName(o)}
	schema, err := toolbox.Parameters(o.Input)
	if err != nil {
		return function{}, err
	}
	f.schema = functionSchema(o.Name, strings.TrimSpace(o.Description), schema)
	if b.omitted.isRefused(f) {
		return function{}, errors.New("the server refuses its schema")
	}
	if len(own)+len(others) >= b.settings.maxTools() {
		return function{}, errors.New("more than tools_most")
	}
	return f, nil
}

// displayName returns the name of a tool for people.
func displayName(o *toolbox.Named) string {
	for _, name := range []string{o.Title, o.Tool.Name, o.Name} {
		if name = oneLine(name, maxTitle); name != "" {
			return name
		}
	}
	return ""
}

// functionSchema returns an element of "tools" in the request.
func functionSchema(name, description string, parameters json.RawMessage) json.RawMessage {
	type definition struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	if utf8.RuneCountInString(description) > maxDescription {
		description = string([]rune(description)[:maxDescription])
	}
	return toolbox.JSON(struct {
		Type     string     `json:"type"`
		Function definition `json:"function"`
	}{"function", definition{name, description, parameters}})
}

// omittedFunctions remembers across turns which functions are not offered. The zero value is ready
// to use.
type omittedFunctions struct {
	mu         sync.Mutex
	lastLogged string
	// schemas are the refused schemas by function name.
	schemas map[string]string
}

// maxRefused limits how many refused schemas are remembered. If there are more, all are forgotten
// and found out again.
const maxRefused = 256

// changed returns the omitted functions as text for the log, or "" if they are the same as before.
func (l *omittedFunctions) changed(left []string) string {
	now := strings.Join(left[:min(len(left), maxNamesLogged)], ", ")
	if more := len(left) - maxNamesLogged; more > 0 {
		now += fmt.Sprintf(" and %d more", more)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now == l.lastLogged {
		return ""
	}
	l.lastLogged = now
	return now
}

func (l *omittedFunctions) refuse(functions []function) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.schemas == nil || len(l.schemas)+len(functions) > maxRefused {
		l.schemas = map[string]string{}
	}
	for _, f := range functions {
		l.schemas[f.name] = string(f.schema)
	}
}

func (l *omittedFunctions) isRefused(f function) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	schema, ok := l.schemas[f.name]
	return ok && schema == string(f.schema)
}
