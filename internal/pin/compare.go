package pin

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// Field is a difference between two contents.
type Field struct {
	// Name is name (of a resource or a template), title, description, inputSchema, outputSchema, a
	// hint, instructions, or extra for all other members.
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
	// Risky means that the change is held back: it can make a model do something else, or makes
	// the tool look safer than before.
	Risky bool `json:"risky"`
}

// Compare returns the differences between two contents of forms with different fingerprints. An
// empty old one is new, and an empty new one removed.
func Compare(before, after []byte) []Field {
	if len(after) == 0 {
		return nil
	}
	var a, b content
	if len(before) > 0 && json.Unmarshal(before, &a) != nil || json.Unmarshal(after, &b) != nil {
		return []Field{{"content", string(before), string(after), true}}
	}
	fresh := len(before) == 0
	var out []Field
	add := func(name, before, after string, risky bool) {
		if before != after {
			out = append(out, Field{name, before, after, risky || fresh})
		}
	}
	add("name", a.Name, b.Name, true)
	add("title", a.Title, b.Title, false)
	add("description", a.Description, b.Description, true)
	add("instructions", a.Instructions, b.Instructions, false)
	add("inputSchema", indent(a.Input), indent(b.Input), true)
	add("outputSchema", indent(a.Output), indent(b.Output), true)
	for _, h := range []struct {
		name          string
		before, after *bool
		safe          bool // the value that looks safer
	}{
		{"readOnlyHint", a.Hints.ReadOnly, b.Hints.ReadOnly, true},
		{"destructiveHint", a.Hints.Destructive, b.Hints.Destructive, false},
		{"idempotentHint", a.Hints.Idempotent, b.Hints.Idempotent, true},
		{"openWorldHint", a.Hints.OpenWorld, b.Hints.OpenWorld, false},
	} {
		add(h.name, hint(h.before), hint(h.after), safety(h.after, h.safe) > safety(h.before, h.safe))
	}
	add("extra", indent(a.Extra), indent(b.Extra), true)
	if len(out) == 0 { // a difference that cannot be shown, or a tool without anything
		out = append(out, Field{"content", string(before), string(after), true})
	}
	return out
}

// RiskOf returns what a change means: [Held] or [Flagged].
func RiskOf(before, after []byte) string {
	if slices.ContainsFunc(Compare(before, after), func(f Field) bool { return f.Risky }) {
		return Held
	}
	return Flagged
}

func hint(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

// safety orders the values of a hint; an unknown one is between both.
func safety(b *bool, safe bool) int {
	switch {
	case b == nil:
		return 1
	case *b == safe:
		return 2
	}
	return 0
}

func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// Line is a line of a difference between two texts: Op is ' ' in both, '-' only in the old, '+'
// only in the new one.
type Line struct {
	Op   byte
	Text string
}

const (
	// maxLines limits the comparison line by line, whose cost is quadratic. Longer texts are shown
	// one after the other.
	maxLines = 1000
	// around is how many equal lines are shown on each side of a different one.
	around = 2
)

// Lines returns the lines in which a field differs, with a few equal ones around them, and a line
// "…" for those left out. Characters that nobody sees are made visible.
func (f Field) Lines() []Line {
	a, b := splitLines(f.Old), splitLines(f.New)
	if len(a) > maxLines || len(b) > maxLines {
		return append(marked('-', a), marked('+', b)...)
	}
	return condense(align(a, b))
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	var out []string
	for _, l := range bytes.Split([]byte(text), []byte("\n")) {
		out = append(out, Visible(string(l)))
	}
	return out
}

func marked(op byte, lines []string) (out []Line) {
	for _, l := range lines {
		out = append(out, Line{op, l})
	}
	return out
}

// align returns a shortest difference, by the longest common subsequence.
func align(a, b []string) (out []Line) {
	common := make([][]int16, len(a)+1)
	for i := range common {
		common[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			out = append(out, Line{' ', a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			out = append(out, Line{'-', a[i]})
			i++
		default:
			out = append(out, Line{'+', b[j]})
			j++
		}
	}
	return append(append(out, marked('-', a[i:])...), marked('+', b[j:])...)
}

// condense leaves out equal lines that are far from different ones.
func condense(all []Line) (out []Line) {
	near := func(i int) bool {
		from, to := max(i-around, 0), min(i+around+1, len(all))
		return slices.ContainsFunc(all[from:to], func(l Line) bool { return l.Op != ' ' })
	}
	left := false
	for i, l := range all {
		if near(i) {
			out, left = append(out, l), false
		} else if !left {
			out, left = append(out, Line{' ', "…"}), true
		}
	}
	return out
}
