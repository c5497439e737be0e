package mcpregistry

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"patchbay/internal/i18n"
)

// Remote is the kind of a way to a server on the web; other kinds are types of packages.
const Remote = "remote"

// Reasons why a way cannot be used.
const (
	UnknownTransport = "transport" // an unknown transport
	UnknownPackage   = "package"   // an unknown type of packages
	OwnServer        = "server"    // the package serves on the network itself
	OtherPackages    = "registry"  // the package is in a registry of its own
	OtherRunner      = "runner"    // it wants a program that is not run here
	BadPackage       = "name"      // the name of the package is none
	BadName          = "variable"  // the name of a variable is none
	RiskyVariable    = "code"      // it sets a variable that changes which code runs
	BadHeader        = "header"    // the name of a header is none
	OpenContainer    = "container" // it gives its container this machine
	TooMuch          = "size"      // it has more than is read here
)

var reasons = map[string]i18n.Message{
	UnknownTransport: "it has a transport that is not known here: %s",
	UnknownPackage:   "packages of the type %s cannot be run",
	OwnServer:        "it serves on the network (%s): start it yourself, and add it by its address",
	OtherPackages:    "it is in a package registry of its own: %s",
	OtherRunner:      "it wants to be run by %s",
	BadPackage:       "its package has no valid name: %s",
	BadName:          "it sets a variable that has no valid name: %s",
	RiskyVariable:    "it sets a variable that changes which programs run: %s",
	BadHeader:        "it wants a header that has no valid name: %s",
	OpenContainer:    "it gives docker an option that can open this machine to its container: %s",
	TooMuch:          "its entry is too large",
}

const (
	msgMissing = i18n.Message("values are missing: %s")
	msgUnknown = i18n.Message("there is no value called %s; there are %s")
	msgChoice  = i18n.Message("%s is %q; choose among %s")
	msgCannot  = i18n.Message("it cannot be added in this way: %s")
)

// Part is a piece of a value: a text, or the name of an input.
type Part struct {
	Text  string `json:"text,omitempty"`
	Input string `json:"input,omitempty"`
}

// Template is a value with inputs in it.
type Template []Part

// Named is a header, or a variable of the environment.
type Named struct {
	Name  string   `json:"name"`
	Value Template `json:"value"`
}

// Told returns the name, and the value as the publisher gives it after sep. Of a value that is one
// input there is only the name.
func (n *Named) Told(sep string) string {
	if len(n.Value) == 1 && n.Value[0].Input != "" {
		return visible(n.Name)
	}
	return visible(n.Name + sep + n.Value.String())
}

// Argument is an argument of a command. Flag, such as "--port", comes before its value.
type Argument struct {
	Flag  string   `json:"flag,omitempty"`
	Value Template `json:"value,omitempty"`
}

// Input is a value that whoever adds the server gives.
type Input struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Secret      bool     `json:"secret,omitempty"`
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
}

// Way is one way in which a server is reached or run.
type Way struct {
	// Kind is Remote, or the type of the package: npm, pypi, oci, nuget or another.
	Kind      string `json:"kind"`
	Transport string `json:"transport,omitempty"` // http, sse or stdio
	// URL and Headers are of a server on the web.
	URL     Template `json:"url,omitempty"`
	Headers []Named  `json:"headers,omitempty"`
	// Package is the name of a package, and Command what runs it.
	Package string     `json:"package,omitempty"`
	Command string     `json:"command,omitempty"`
	Args    []Argument `json:"args,omitempty"`
	Env     []Named    `json:"env,omitempty"`
	Inputs  []Input    `json:"inputs,omitempty"`
	// Reason says why it cannot be used, and About what it is about; empty: it can.
	Reason string `json:"reason,omitempty"`
	About  string `json:"about,omitempty"`
}

// Problem returns why a way cannot be used; zero: it can.
func (w *Way) Problem() i18n.Text {
	if w.Reason == "" {
		return i18n.Text{}
	}
	if w.Reason == TooMuch {
		return reasons[w.Reason].With()
	}
	return reasons[w.Reason].With(w.About)
}

// String returns what is contacted or run, with the names of inputs in braces. In an address, an
// input with a default has that.
func (w *Way) String() string {
	if w.Kind == Remote {
		address := w.URL.String()
		for _, in := range w.Inputs {
			if in.Default != "" {
				address = strings.ReplaceAll(address, "{"+in.Name+"}", in.Default)
			}
		}
		return visible(address)
	}
	if w.Command == "" {
		return visible(w.Package)
	}
	words := []string{w.Command}
	for _, a := range w.Args {
		words = append(words, a.words(a.Value.String(), len(a.Value) > 0)...)
	}
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\"'\\$;&|<>()`*?") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return visible(strings.Join(words, " "))
}

// visible returns a text of a publisher as one line, with what cannot be seen as numbers.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		}
	}
	return b.String()
}

func (t Template) String() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.Text)
		if p.Input != "" {
			b.WriteString("{" + p.Input + "}")
		}
	}
	return b.String()
}

// words returns an argument: --flag=value, or -f and value.
func (a *Argument) words(value string, given bool) []string {
	switch {
	case a.Flag == "" && !given:
		return nil
	case a.Flag == "":
		return []string{value}
	case !given:
		return []string{a.Flag}
	case strings.HasPrefix(a.Flag, "--"):
		return []string{a.Flag + "=" + value}
	}
	return []string{a.Flag, value}
}

// Missing returns the inputs that have to be given and are not.
func (w *Way) Missing(given map[string]string) (list []Input) {
	for _, in := range w.Inputs {
		if in.Required && in.Default == "" && given[in.Name] == "" {
			list = append(list, in)
		}
	}
	return list
}

// Settings returns the settings of an upstream, as texts.
func (w *Way) Settings(given map[string]string) (map[string]string, error) {
	values, err := w.values(given)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	put := func(name string, v any) {
		raw, _ := json.Marshal(v)
		out[name] = string(raw)
	}
	if w.Kind == Remote {
		out["url"], _ = w.URL.fill(values)
		out["transport"] = w.Transport
		if headers := fillAll(w.Headers, values); len(headers) > 0 {
			put("headers", headers)
		}
		return out, nil
	}
	args := []string{}
	for _, a := range w.Args {
		value, given := a.Value.fill(values)
		if len(a.Value) > 0 && !given {
			continue
		}
		args = append(args, a.words(value, given)...)
	}
	out["command"] = w.Command
	put("args", args)
	if env := fillAll(w.Env, values); len(env) > 0 {
		put("env", env)
	}
	return out, nil
}

// values returns the values of all inputs.
func (w *Way) values(given map[string]string) (map[string]string, error) {
	if p := w.Problem(); !p.IsZero() {
		return nil, msgCannot.Errorf(p)
	}
	values, names := map[string]string{}, []string{}
	for _, in := range w.Inputs {
		names = append(names, in.Name)
		v := given[in.Name]
		if v == "" {
			v = in.Default
		}
		if v != "" && len(in.Choices) > 0 && !slices.Contains(in.Choices, v) {
			return nil, msgChoice.Errorf(in.Name, v, strings.Join(in.Choices, ", "))
		}
		values[in.Name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return nil, msgUnknown.Errorf(name, strings.Join(names, ", "))
		}
	}
	if missing := w.Missing(given); len(missing) > 0 {
		var list []string
		for _, in := range missing {
			list = append(list, in.Name)
		}
		return nil, msgMissing.Errorf(strings.Join(list, ", "))
	}
	return values, nil
}

// fill returns a value, and false if an input in it has none.
func (t Template) fill(values map[string]string) (string, bool) {
	var b strings.Builder
	complete := len(t) > 0
	for _, p := range t {
		b.WriteString(p.Text)
		if p.Input != "" {
			complete = complete && values[p.Input] != ""
			b.WriteString(values[p.Input])
		}
	}
	return b.String(), complete
}

func fillAll(list []Named, values map[string]string) map[string]string {
	out := map[string]string{}
	for _, n := range list {
		if v, ok := n.Value.fill(values); ok {
			out[n.Name] = v
		}
	}
	return out
}

// builder makes a way of an entry.
type builder struct {
	way Way
	// runtime are the arguments of the publisher for docker itself.
	runtime []Argument
}

func (b *builder) refuse(reason, about string) {
	if b.way.Reason == "" {
		b.way.Reason, b.way.About = reason, clip(line(about), 100)
	}
}

// finish returns the way. One that cannot be used has nothing but its reason.
func (b *builder) finish() Way {
	w := b.way
	if len(w.Inputs) > maxParts || len(w.Headers) > maxParts || len(w.Args) > 2*maxParts || len(w.Env) > maxParts {
		b.refuse(TooMuch, "")
	}
	b.checkEnv()
	b.checkContainer(b.runtime)
	if w = b.way; w.Reason != "" {
		return Way{Kind: w.Kind, Transport: w.Transport, Package: w.Package, Reason: w.Reason, About: w.About}
	}
	return w
}

func (b *builder) fixed(texts ...string) {
	for _, text := range texts {
		b.way.Args = append(b.way.Args, Argument{Value: Template{{Text: text}}})
	}
}

func (b *builder) arguments(list []argument) {
	for i := range list {
		a := &list[i]
		name := a.ValueHint
		if a.Type == "named" {
			name = strings.TrimLeft(a.Name, "-")
		}
		out := Argument{Value: b.value(name, &a.input)}
		if a.Type == "named" {
			out.Flag = clip(line(a.Name), maxText)
			if a.Value == "" && a.Default == "" && !a.Required && len(a.Choices) == 0 && a.ValueHint == "" {
				out.Value = nil // a flag without a value
			}
		}
		b.way.Args = append(b.way.Args, out)
	}
}

// value returns the template of a value: what is fixed, with its variables, or an input.
func (b *builder) value(name string, in *input) Template {
	if in.Value != "" {
		return b.template(in.Value, in.Variables)
	}
	return Template{{Input: b.input(name, in)}}
}

var variable = regexp.MustCompile(`\{[^{}]+\}`)

// template reads a text with {variables}. What is not among them stays as it is.
func (b *builder) template(text string, variables map[string]input) (out Template) {
	if len(text) > maxValue {
		b.refuse(TooMuch, "")
		return nil
	}
	add := func(fixed string) {
		if fixed != "" {
			out = append(out, Part{Text: fixed})
		}
	}
	at := 0
	for _, m := range variable.FindAllStringIndex(text, maxParts) {
		name := text[m[0]+1 : m[1]-1]
		v, known := variables[name]
		if !known {
			continue
		}
		add(text[at:m[0]])
		if at = m[1]; v.Value != "" {
			add(clip(v.Value, maxValue))
			continue
		}
		v.Required = v.Required || v.Default == ""
		out = append(out, Part{Input: b.input(name, &v)})
	}
	add(text[at:])
	return out
}

// input adds an input, and returns its name. One name stands for one value everywhere.
func (b *builder) input(name string, in *input) string {
	name = strings.ReplaceAll(clip(line(name), 100), "=", "_")
	if name == "" {
		name = "value"
	}
	for i := range b.way.Inputs {
		if old := &b.way.Inputs[i]; old.Name == name {
			old.Required, old.Secret = old.Required || in.Required, old.Secret || in.Secret
			return name
		}
	}
	about := in.Description
	if about == "" {
		about = in.Placeholder
	}
	one := Input{Name: name, Description: line(about), Required: in.Required, Secret: in.Secret,
		Default: clip(in.Default, maxValue)}
	for _, c := range in.Choices[:min(len(in.Choices), maxParts)] {
		one.Choices = append(one.Choices, clip(line(c), maxText))
	}
	b.way.Inputs = append(b.way.Inputs, one)
	return name
}
