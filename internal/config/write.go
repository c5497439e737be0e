package config

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Masked replaces a secret that is set wherever settings are printed. It is not a valid value of
// any secret key.
const Masked = "********"

// docWidth is the width of comments in the default file, in columns.
const docWidth = 96

const fileHead = `Settings of Patchbay. Every key is here with its default, commented out: take the "#" away
and change the value.

Each key can also be given as an environment variable or as a flag, which are named with it.
Flags win over the environment, the environment wins over this file. A secret can be kept in
a file of its own, which is named with "_file" after the key ("_FILE" after the variable,
"-file" after the flag). Relative paths start from the folder of this file. Durations are
written 7s, 10m, 12h or 30d, sizes 512KiB or 8MiB, lists [a, b].

"patchbay config check" reads this file and tells what is wrong with it.`

// WriteDefault writes a configuration file that explains every key and changes nothing: loading it
// has the same result as loading no file.
func WriteDefault(w io.Writer) error {
	b := bufio.NewWriter(w)
	writeComment(b, "", fileHead)
	at := ""
	for _, k := range known.keys {
		indent := enter(b, &at, k, true)
		b.WriteByte('\n')
		doc := k.Doc
		if k.Range != "" {
			doc += " Allowed: " + k.Range + "."
		}
		writeComment(b, indent, wrap(doc, docWidth-len(indent)))
		writeComment(b, indent, k.Env+", "+k.Flag)
		fmt.Fprintf(b, "%s#%s: %s\n", indent, lastWord(k.Path), k.yaml(k.must(k.Default)))
	}
	return b.Flush()
}

// WriteEffective writes every key with its value as a configuration file. Secrets that are set are
// written as [Masked]. A file without secrets loads to the same configuration.
func (c *Config) WriteEffective(w io.Writer) error {
	b := bufio.NewWriter(w)
	at := ""
	for _, k := range known.keys {
		indent := enter(b, &at, k, false)
		v := k.of(c)
		if k.Secret && v != "" {
			v = Masked
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent, lastWord(k.Path), k.yaml(v))
	}
	return b.Flush()
}

// enter writes the key of the group when the group changes, and returns the indentation of the key.
func enter(b *bufio.Writer, at *string, k *Key, explain bool) (indent string) {
	g, _, nested := strings.Cut(k.Path, ".")
	if !nested {
		return ""
	}
	if g != *at {
		*at = g
		if explain {
			b.WriteByte('\n')
			writeComment(b, "", wrap(known.groups[g].doc, docWidth))
		}
		fmt.Fprintf(b, "%s:\n", g)
	}
	return "  "
}

// yaml returns a value as it is written in the file, on one line.
func (k *Key) yaml(value any) string {
	n := scalar(k.text(value))
	switch v := value.(type) {
	case string:
		n.Tag = "!!str" // otherwise a secret of digits, or the word "no", would change its type
	case []string:
		n = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range v {
			s := scalar(item)
			s.Tag = "!!str"
			n.Content = append(n.Content, s)
		}
	}
	out, err := yaml.Marshal(n)
	if err != nil {
		return `""` // not reached: every scalar and list can be marshalled
	}
	return strings.TrimSuffix(string(out), "\n")
}

func scalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

func writeComment(b *bufio.Writer, indent, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight(indent+"# "+line, " ") + "\n")
	}
}

// wrap breaks a text into lines of at most width bytes if its words allow.
func wrap(text string, width int) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case used == 0:
		case used+1+len(word) > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += len(word)
	}
	return b.String()
}

// DocWords are the texts of [WriteDocIn] in one language.
type DocWords struct {
	Head    string                   // header row of the tables
	Allowed string                   // with a %s for the range
	Secret  string                   // with three %s: key, variable and flag of the file
	Text    func(text string) string // translates the description of a setting or a group
}

var englishDoc = DocWords{
	Head:    "| key | environment | flag | default | meaning |",
	Allowed: " Allowed: %s.",
	Secret:  " Secret: can be read from a file, named by `%s`, `%s` or `%s`.",
	Text:    func(text string) string { return text },
}

// WriteDoc writes the settings as Markdown tables, one per group, with key, environment variable,
// flag, default and meaning.
func WriteDoc(w io.Writer) error { return WriteDocIn(w, englishDoc) }

// WriteDocIn is [WriteDoc] in a language.
func WriteDocIn(w io.Writer, words DocWords) error {
	b := bufio.NewWriter(w)
	at := ""
	words.writeHead(b)
	for _, k := range known.keys {
		if g, _, nested := strings.Cut(k.Path, "."); nested && g != at {
			at = g
			fmt.Fprintf(b, "\n### %s\n\n%s\n\n", g, words.Text(known.groups[g].doc))
			words.writeHead(b)
		}
		doc := words.Text(k.Doc)
		if k.Range != "" {
			doc += fmt.Sprintf(words.Allowed, words.Text(k.Range))
		}
		if k.Secret {
			doc += fmt.Sprintf(words.Secret, k.Path+fileKey, k.Env+fileEnv, k.Flag+fileFlag)
		}
		fmt.Fprintf(b, "| `%s` | `%s` | `%s` | %s | %s |\n", k.Path, k.Env, k.Flag, code(k.Default), cell(doc))
	}
	return b.Flush()
}

func (d DocWords) writeHead(b *bufio.Writer) {
	b.WriteString(d.Head + "\n|---|---|---|---|---|\n")
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// cellEscapes escapes Markdown characters in a sentence.
var cellEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "<", "&lt;")

func cell(text string) string { return cellEscapes.Replace(text) }
