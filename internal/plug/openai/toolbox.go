package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Toolbox is what a bot may call beyond the device of the person who asks. It is
// used by many turns at once, and a turn uses it from several goroutines.
type Toolbox interface {
	// List returns what the bot may call in a turn, in a stable order. It is asked
	// once in a turn, before the model is, and given five seconds.
	List(ctx context.Context, turn *talk.Turn) ([]NamedTool, error)
	// Call carries out one call and returns when there is a result, or soon after
	// ctx has ended. The name is one that List returned and args are a JSON object;
	// nothing else is checked. An error that is, or wraps, a *[tool.Error] is told
	// to the model as it says. It may call progress from any goroutine until it
	// returns; progress does not block.
	Call(ctx context.Context, turn *talk.Turn, name string, args json.RawMessage,
		progress func(tool.Progress)) (*tool.Result, error)
}

// NamedTool is a tool under the name by which the model calls it, which is unique
// in its list and made of one to 64 letters, digits, hyphens and underscores. It
// shadows the name that the tool has at its provider.
type NamedTool struct {
	Name string
	tool.Tool
}

const (
	// listToolsTimeout is how long a person waits for the list of tools.
	listToolsTimeout = 5 * time.Second
	// maxDescription is how much of a description OpenAI takes, in characters.
	maxDescription = 1024
	// maxSchema bounds the schema of a tool's arguments, which is sent with every
	// request. Large ones in use have some 5 KiB.
	maxSchema = 16 << 10
	// maxTitle bounds what a tool is called in notes, in characters.
	maxTitle = 40
	// maxNamesLogged is how many of the tools that are left out are named in the log.
	maxNamesLogged = 20
)

var functionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// toolboxFunctions are the functions of the toolbox that fit in beside our own.
// A list that cannot be had leaves the model without them.
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

// toFunction makes a function of a tool, or says why it cannot be one.
func (b *Bot) toFunction(o *NamedTool, own, others []function) (function, error) {
	if !functionName.MatchString(o.Name) {
		return function{}, errors.New("a name that models cannot call")
	}
	_, ours := find(own, o.Name)
	_, theirs := find(others, o.Name)
	if _, device := commandTools[o.Name]; ours || theirs || device || o.Name == toolSuggest {
		return function{}, errors.New("the name is taken")
	}
	f := function{name: o.Name, title: displayName(o)}
	schema, err := parameters(o.Input)
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

// displayName is what people call a tool.
func displayName(o *NamedTool) string {
	for _, name := range []string{o.Title, o.Tool.Name, o.Name} {
		if name = oneLine(name, maxTitle); name != "" {
			return name
		}
	}
	return ""
}

// parameters makes a schema such that chat servers take it: OpenAI and others
// want an object with properties, if only none, and no alternatives at the top.
// What is lost is checked when the tool is called.
func parameters(input json.RawMessage) (json.RawMessage, error) {
	if len(input) > maxSchema {
		return nil, fmt.Errorf("a schema of more than %d bytes", maxSchema)
	}
	fields := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(input)) > 0 && json.Unmarshal(bytes.ToValidUTF8(input, []byte("\ufffd")), &fields) != nil {
		return nil, errors.New("the schema is not a JSON object")
	}
	if fields == nil { // null
		fields = map[string]json.RawMessage{}
	}
	for _, name := range []string{"$schema", "$id", "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "enum",
		"const"} {
		delete(fields, name)
	}
	fields["type"] = json.RawMessage(`"object"`)
	var properties map[string]json.RawMessage
	if json.Unmarshal(fields["properties"], &properties) != nil || properties == nil {
		fields["properties"] = json.RawMessage("{}")
	}
	var required []string
	_ = json.Unmarshal(fields["required"], &required)
	required = slices.DeleteFunc(required, func(name string) bool { return properties[name] == nil })
	delete(fields, "required")
	if len(required) > 0 {
		fields["required"] = encodeJSON(required)
	}
	return encodeJSON(fields), nil
}

// functionSchema is an element of the request's "tools".
func functionSchema(name, description string, parameters json.RawMessage) json.RawMessage {
	type definition struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	if utf8.RuneCountInString(description) > maxDescription {
		description = string([]rune(description)[:maxDescription])
	}
	return encodeJSON(struct {
		Type     string     `json:"type"`
		Function definition `json:"function"`
	}{"function", definition{name, description, parameters}})
}

// encodeJSON writes JSON without HTML escapes, of values that can be written.
func encodeJSON(v any) json.RawMessage {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(w.Bytes(), []byte("\n"))
}

// omittedFunctions is what a bot remembers from turn to turn about functions that it does
// not offer. The zero value is ready.
type omittedFunctions struct {
	mu         sync.Mutex
	lastLogged string
	// schemas are those that the server has refused, by the function's name.
	schemas map[string]string
}

// maxRefused bounds how many refused schemas are remembered; when there are more,
// they are forgotten and found out again.
const maxRefused = 256

// changed is what has to be logged: what is left out, unless it is what was left
// out before.
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
