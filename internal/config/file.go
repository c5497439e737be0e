package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// FileName is the name of the configuration file in the data folder.
	FileName = "patchbay.yaml"
	// maxFile limits the file, in bytes, in case its name points to something else. A file that
	// sets every key has a few KiB.
	maxFile = 1 << 20
	// maxProblems stops the reading of a file that is not a configuration file at all.
	maxProblems = 50
)

// fileName returns the path of the configuration file, and whether it has to exist because it was
// named explicitly.
func fileName(named string, env map[string]string, flags, vars *layer) (path string, must bool) {
	if named == "" {
		named = env[EnvConfig]
	}
	if named != "" {
		return vars.absolute(named), true
	}
	for _, l := range []*layer{flags, vars} {
		if data, ok := l.values["data"].(string); ok && data != "" {
			return filepath.Join(data, FileName), false
		}
	}
	if home := dataHome(env); home != "" {
		return filepath.Join(home, FileName), false
	}
	return "", false
}

func (l *layer) readFile(path string, must bool) {
	if path == "" {
		return
	}
	data, err := readLimited(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !must:
		return
	case errors.Is(err, fs.ErrNotExist):
		l.problems.add(path, "", "does not exist", `write one with "patchbay config default", or name another`)
		return
	case err != nil:
		l.problems.add(path, "", "cannot be read ("+reason(err)+")", "let this account read it, or name another file")
		return
	case len(data) > maxFile:
		l.problems.add(path, "", "is larger than "+Size(maxFile).String(),
			"name a configuration file, which is far smaller")
		return
	}
	l.base = filepath.Dir(path)
	l.readYAML(path, data)
}

func (l *layer) readYAML(path string, data []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if err == io.EOF {
		return // nothing but comments
	}
	if err != nil {
		l.problems.add(path, "", "is not YAML ("+yamlReason(err)+")", "correct that line or the one above it")
		return
	}
	if err = dec.Decode(&more); err != io.EOF {
		l.problems.add(path, "", "holds more than one document", `take out the line "---" and what follows it`)
		return
	}
	r := &fileReader{layer: l, path: path}
	r.group(doc.Content[0], "")
}

// yamlLine matches the position in the YAML package's errors. The rest of a message may quote the
// file, and so a secret.
var yamlLine = regexp.MustCompile(`line [0-9]+`)

func yamlReason(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if line := yamlLine.FindString(text); line != "" && strings.Contains(text, "anchor") {
		return line + ": an alias"
	} else if strings.Contains(text, "anchor") {
		return `an alias; quote a value that begins with "*"`
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// fileReader walks a YAML document. It reads nodes instead of decoding them, for three reasons:
// nodes have line numbers, they show duplicate keys, and they keep values as they were written, so
// that a key of 64 decimal digits stays text.
type fileReader struct {
	*layer
	path string
}

func (r *fileReader) at(n *yaml.Node) Origin { return Origin{Name: r.path, Line: n.Line} }

// problem reports a problem at node n.
func (r *fileReader) problem(key string, n *yaml.Node, fault, advice string) {
	r.problems.add(key, r.at(n).Where(), fault, advice)
}

// whole reports a problem of the file that belongs to no key.
func (r *fileReader) whole(n *yaml.Node, fault, advice string) {
	r.problems.add(r.path, "line "+strconv.Itoa(n.Line), fault, advice)
}

// group reads the keys below prefix, which is empty or ends with a dot.
func (r *fileReader) group(n *yaml.Node, prefix string) {
	this := strings.TrimSuffix(prefix, ".")
	if isNull(n) {
		return // all keys of the group are commented out
	}
	if n.Kind != yaml.MappingNode {
		if prefix == "" {
			r.whole(n, "holds no keys", `write lines such as "listen: 127.0.0.1:3000"`)
		} else {
			r.problem(this, n, "is a group of keys, not a value",
				"write its keys on lines of their own beneath it, indented")
		}
		return
	}
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if len(r.problems) >= maxProblems {
			r.whole(n.Content[i], "is not read further", "solve the problems above first")
			return
		}
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			r.whole(key, "has a key that is no word", `write lines such as "listen: 127.0.0.1:3000"`)
			continue
		}
		path := prefix + key.Value
		if first, twice := lines[key.Value]; twice {
			r.problem(name(path), key, "was given before, by line "+strconv.Itoa(first), "keep one of the two")
			continue
		}
		lines[key.Value] = key.Line
		r.entry(path, key, value)
	}
}

func (r *fileReader) entry(path string, key, value *yaml.Node) {
	dotted := strings.Contains(key.Value, ".") // a path in place of a name
	if k := known.byPath[path]; k != nil && !dotted {
		if text, ok := r.value(k, path, key, value); ok {
			r.give(k, text, r.at(key))
		}
		return
	}
	if _, ok := known.groups[path]; ok {
		r.group(value, path+".")
		return
	}
	if k := secretTwin(path); k != nil && !dotted {
		if text, ok := r.value(k, path, key, value); ok {
			r.giveFile(k, text, r.at(key))
		}
		return
	}
	advice := suggest(path, pathNames())
	if known.byPath[path] != nil || secretTwin(path) != nil {
		parent, child, _ := strings.Cut(path, ".")
		advice = "write " + child + " on a line of its own beneath " + parent + ", indented"
	}
	r.problem(name(path), key, "is no known key", advice)
}

// value returns the text of a key's value.
func (r *fileReader) value(k *Key, path string, key, n *yaml.Node) (text string, ok bool) {
	switch {
	case n.Kind == yaml.AliasNode:
		r.problem(path, key, "has an alias as its value", `write the value itself, in quotes if it begins with "*"`)
	case isNull(n):
		r.problem(path, key, "has no value", `give one, "" if it is to be empty, or take the line out`)
	case n.Kind == yaml.SequenceNode && k.Type == List:
		return r.list(path, n)
	case n.Kind != yaml.ScalarNode:
		r.problem(path, key, "has more than one value", "give "+k.wanted())
	case !plain(n):
		r.problem(path, key, "has a value with a tag", `write the value itself, in quotes if it begins with "!"`)
	default:
		return n.Value, true
	}
	return "", false
}

// list joins the items of a list with commas, which no item can contain.
func (r *fileReader) list(path string, n *yaml.Node) (text string, ok bool) {
	items := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode || !plain(item) || isNull(item) {
			r.problem(path, item, "has an item that is no text", `write items such as "- 10.0.0.0/8"`)
			return "", false
		}
		items = append(items, item.Value)
	}
	return strings.Join(items, ","), true
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// plain reports whether a value has one of YAML's basic types, all of which are read as written.
func plain(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		return true
	}
	return false
}
