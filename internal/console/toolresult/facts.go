package toolresult

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/console/toolwords"
)

const (
	// maxFacts is how many values of a JSON object people read; a larger one is shown as JSON.
	maxFacts = 30
	// maxFactDepth limits the objects within one another.
	maxFactDepth = 4
)

// worded are members of results whose values are words of a fixed list.
var worded = []string{"emotion", "priority", "repeat", "signal", "theme", "type"}

// fact is a value of a JSON object as people read it.
type fact struct{ name, value string }

// factReader reads the facts of a result of one of Patchbay's own tools.
type factReader struct {
	v      *page.Visit
	groups [][]fact // those of the object itself, and one group for each object in a list
	count  int
}

// factsOf returns the values of a JSON object in their order, named in the reader's language. It
// returns nil for other JSON, and for an object that is too large for people.
func factsOf(v *page.Visit, text string) [][]fact {
	r := factReader{v: v, groups: [][]fact{nil}}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !r.object(d, 0, "", 1) || r.count == 0 {
		return nil
	}
	return slices.DeleteFunc(r.groups, func(g []fact) bool { return len(g) == 0 })
}

// object reads the members of an object, whose beginning was read, into a group. It returns false
// if they are not for people.
func (r *factReader) object(d *json.Decoder, group int, of string, depth int) bool {
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false
		}
		key, _ := name.(string)
		label := toolwords.Word(r.v.Lang, key)
		if of != "" {
			label = of + " · " + label
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil || !r.value(raw, group, key, strings.ReplaceAll(label, "_", " "), depth) {
			return false
		}
	}
	return true
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
		return r.object(d, group, label, depth+1)
	case json.Delim('['):
		return r.list(d, group, key, label, depth)
	}
	r.groups[group] = append(r.groups[group], fact{label, r.text(key, t)})
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
			r.groups = append(r.groups, nil)
			if !r.object(d, len(r.groups)-1, "", depth+1) {
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
		r.groups[group] = append(r.groups[group], fact{label, strings.Join(texts, ", ")})
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
			return toolwords.Word(r.v.Lang, value)
		}
		return value
	}
	return r.v.Text(msgNothing)
}
