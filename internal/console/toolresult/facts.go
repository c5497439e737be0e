package toolresult

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/tool"
)

const (
	// maxFacts is how many values of a JSON object people read; a larger one is shown as JSON.
	maxFacts = 80
	// maxFactDepth limits the objects within one another.
	maxFactDepth = 4
)

// worded are members of results whose values are words of a fixed list.
var worded = []string{"emotion", "priority", "repeat", "signal", "theme", "type"}

// fact is a value of a JSON object as people read it.
type fact struct{ name, value string }

// factGroup are the facts of an object, or of an object in a list, whose name is the title.
type factGroup struct {
	title string
	facts []fact
}

// factReader reads the facts of a result.
type factReader struct {
	v      *page.Visit
	groups []factGroup // the first is that of the object itself
	count  int
}

// factsOf returns the values of a JSON object in their order, named in the reader's language. It
// returns nil for other JSON, and for an object that is too large for people.
func factsOf(v *page.Visit, text string) []factGroup {
	r := factReader{v: v, groups: make([]factGroup, 1)}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !r.object(d, 0, "", "", 1) || r.count == 0 {
		return nil
	}
	return slices.DeleteFunc(r.groups, func(g factGroup) bool { return len(g.facts) == 0 })
}

// shown returns the blocks of a result for people. With named, JSON has facts; if the structured
// content has some, JSON in the text is left out, which is there for models.
func shown(v *page.Visit, r *tool.Result, named bool) []Block {
	blocks, structured := Blocks(r), indented(r.Structured)
	if !named {
		return blocks
	}
	read := false // the structured content
	for i := range blocks {
		if b := &blocks[i]; b.Kind == JSON {
			b.facts = factsOf(v, b.Text)
			read = read || b.Text == structured && b.facts != nil
		}
	}
	return slices.DeleteFunc(blocks, func(b Block) bool { return read && b.Kind == JSON && b.Text != structured })
}

// object reads the members of an object, whose beginning was read, into a group. It returns false
// if they are not for people.
func (r *factReader) object(d *json.Decoder, group int, key, of string, depth int) bool {
	if !d.More() && of != "" {
		r.add(group, of, r.v.Text(msgNothing))
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false
		}
		member, _ := name.(string)
		label := r.word(key, member)
		if of != "" {
			label = of + " · " + label
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil || !r.value(raw, group, member, label, depth) {
			return false
		}
	}
	return true
}

// word returns a word in the reader's language: what it means as a member or a value of something,
// or else what it means anywhere.
func (r *factReader) word(of, word string) string {
	full := of + "." + word
	if own := toolwords.Word(r.v.Lang, full); own != full {
		return own
	}
	return toolwords.Word(r.v.Lang, word)
}

// add adds a fact to a group.
func (r *factReader) add(group int, name, value string) {
	g := &r.groups[group]
	g.facts = append(g.facts, fact{name, value})
}

// value reads the value of a member.
func (r *factReader) value(raw json.RawMessage, group int, key, label string, depth int) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	t, err := d.Token()
	if r.count++; err != nil || r.count > maxFacts || depth > maxFactDepth {
		return false
	}
	switch t {
	case json.Delim('{'):
		return r.object(d, group, key, label, depth+1)
	case json.Delim('['):
		return r.list(d, group, key, label, depth)
	}
	r.add(group, label, r.text(key, t))
	return true
}

// list reads a list: the values of one fact, or objects of which each becomes a group.
func (r *factReader) list(d *json.Decoder, group int, key, label string, depth int) bool {
	var texts []string
	objects := 0
	for d.More() {
		t, err := d.Token()
		if r.count++; err != nil || r.count > maxFacts {
			return false
		}
		switch t {
		case json.Delim('['):
			return false
		case json.Delim('{'):
			objects++
			r.groups = append(r.groups, factGroup{title: label})
			if !r.object(d, len(r.groups)-1, key, "", depth+1) {
				return false
			}
			if _, err := d.Token(); err != nil { // its end
				return false
			}
		default:
			texts = append(texts, r.text(key, t))
		}
	}
	if objects == 0 {
		if len(texts) == 0 {
			texts = []string{r.v.Text(msgNothing)}
		}
		r.add(group, label, strings.Join(texts, ", "))
	}
	return objects == 0 || len(texts) == 0
}

// text returns a string, number, boolean or null as people read it.
func (r *factReader) text(key string, value json.Token) string {
	switch value := value.(type) {
	case bool:
		if value {
			return r.v.Text(msgYes)
		}
		return r.v.Text(msgNo)
	case json.Number:
		return value.String()
	case string:
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			return r.v.FormatDate(at)
		}
		if slices.Contains(worded, key) {
			return r.word(key, value)
		}
		return value
	}
	return r.v.Text(msgNothing)
}
