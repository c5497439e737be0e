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

// Toolbox provides the functions that a bot may call besides device commands. It is used by many
// turns at once, and by several goroutines of a turn.
type Toolbox interface {
	// List returns the functions for a turn, in a stable order. It is called once per turn, before
	// the first request, with a timeout of five seconds.
	List(ctx context.Context, turn *talk.Turn) ([]NamedTool, error)
	// Call executes one call. It returns when there is a result, or soon after ctx has ended. The
	// name is one that List returned, and args is a JSON object; nothing else is validated. The
	// model gets the text of an error that is or wraps a *[tool.Error]. Call may call progress from
	// any goroutine until it returns; progress does not block.
	Call(ctx context.Context, turn *talk.Turn, name string, args json.RawMessage,
		progress func(tool.Progress)) (*tool.Result, error)
}

// NamedTool is a tool with the name by which the model calls it. The name is unique in its list and
// has 1 to 64 letters, digits, hyphens and underscores. It shadows the provider's name of the tool.
type NamedTool struct {
	Name string
	tool.Tool
}

const (
	// listToolsTimeout limits how long a turn waits for the list of tools.
	listToolsTimeout = 5 * time.Second
	// maxDescription is the maximum length of a function's description at OpenAI, in characters
	// ("Expected a string with maximum length 1024"; rusiaaman/wcgw, issue 51).
	maxDescription = 1024
	// maxSchema limits the schema of a tool's arguments, in bytes. It is part of every request.
	// Large schemas in use have some 5 KiB.
	maxSchema = 16 << 10
	// maxTitle limits the display name of a tool in notes, in characters.
	maxTitle = 40
	// maxNamesLogged limits how many omitted tools are named in the log.
	maxNamesLogged = 20
)

// functionName matches the names that OpenAI's API accepts (API reference, Create chat completion,
// tools.function.name).
var functionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

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

// displayName returns the name of a tool for people.
func displayName(o *NamedTool) string {
	for _, name := range []string{o.Title, o.Tool.Name, o.Name} {
		if name = oneLine(name, maxTitle); name != "" {
			return name
		}
	}
	return ""
}

// parameters returns a schema that chat servers accept. OpenAI requires an object with properties,
// which may be empty, and rejects alternatives at the top level ("schema must have type 'object'
// and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; langchain-ai/langchainjs,
// issue 9804). The removed constraints are checked when the tool is called.
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
	return encodeJSON(struct {
		Type     string     `json:"type"`
		Function definition `json:"function"`
	}{"function", definition{name, description, parameters}})
}

// encodeJSON returns a value as JSON without HTML escapes. The value must be encodable.
func encodeJSON(v any) json.RawMessage {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(w.Bytes(), []byte("\n"))
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
