package hub

import "strings"

// nameSeparators separate the words in names of tools. A name without one could be an ordinary
// word, and is not replaced in descriptions.
const nameSeparators = "._-/:"

// translateMentions replaces the names that a provider uses for its tools in descriptions by their
// full names, so that a model calls names that are in its list.
func translateMentions(named []RegisteredTool) {
	full := make(map[string]string, len(named))
	for i := range named {
		if own := named[i].Tool.Name; strings.ContainsAny(own, nameSeparators) && own != named[i].Name {
			full[own] = named[i].Name
		}
	}
	if len(full) == 0 {
		return
	}
	for i := range named {
		o := &named[i]
		if text, changed := replaceNames(o.Description, full); changed {
			t := *o.Tool // a copy: the list of the provider is shared
			t.Description = text
			o.Tool = &t
		}
	}
}

// replaceNames replaces whole names, never a part of a longer one.
func replaceNames(text string, full map[string]string) (string, bool) {
	var out strings.Builder
	done := 0
	for at := 0; at < len(text); {
		if !isNameByte(text[at]) {
			at++
			continue
		}
		end := at
		for end < len(text) && isNameByte(text[end]) {
			end++
		}
		// A sentence may end right after a name.
		name := strings.TrimRight(text[at:end], nameSeparators)
		if to := full[name]; to != "" {
			out.WriteString(text[done:at])
			out.WriteString(to)
			done = at + len(name)
		}
		at = end
	}
	if done == 0 {
		return text, false
	}
	out.WriteString(text[done:])
	return out.String(), true
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte(nameSeparators, c) >= 0
}
