package hub

import (
	"cmp"
	"regexp"
	"strings"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/pin"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// A person can give tools names, titles and descriptions of their own, because models choose by
// them. They are the person's: others who have the same tool see it as its server has it. Rules,
// sets, approvals and the audit trail know a tool by its original name, so what it is called never
// changes who may call it. Calls may use both names.

// FindToolsName and CallToolName are the tools of programs that search, see [Rules.FindTools]. No
// other tool can have these names.
const FindToolsName, CallToolName = "find_tools", "call_tool"

const (
	// maxWordsTitle and maxWordsDescription limit a person's own title and description of a tool,
	// in characters: both are in every list that a model reads.
	maxWordsTitle, maxWordsDescription = 100, 4000
)

// Messages about names and texts of tools.
const (
	msgToolName     = i18n.Message("%q cannot be the name of a tool: use 1 to 64 letters, digits, _ and -, beginning with a letter")
	msgToolNameOurs = i18n.Message("%q is the name of a tool of Patchbay's own")
	msgTextLong     = i18n.Message("a title has %d characters at most, and a description %d")
	msgTextHidden   = i18n.Message("the text has characters that people cannot see: %s")
)

// ownNameForm matches names that all model APIs accept; Google's want a letter first.
var ownNameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// CheckToolWords reports words that a tool cannot have. Whether another tool has the name is for
// the caller to find out.
func CheckToolWords(w store.ToolWords) error {
	if w.Name != "" && !ownNameForm.MatchString(w.Name) {
		return msgToolName.Errorf(w.Name)
	}
	if w.Name == FindToolsName || w.Name == CallToolName {
		return msgToolNameOurs.Errorf(w.Name)
	}
	if utf8.RuneCountInString(w.Title) > maxWordsTitle || utf8.RuneCountInString(w.Description) > maxWordsDescription {
		return msgTextLong.Errorf(maxWordsTitle, maxWordsDescription)
	}
	for _, text := range []string{w.Title, w.Description} {
		if !utf8.ValidString(text) || pin.Visible(text) != text {
			return msgTextHidden.Errorf(pin.Visible(strings.ToValidUTF8(text, "\ufffd")))
		}
	}
	return nil
}

func sameWords(a, b store.ToolWords) bool {
	return a.Name == b.Name && a.Title == b.Title && a.Description == b.Description
}

// OriginalName returns the name of the tool if its owner had not given it another one. It depends
// only on the provider's slug and the tool's own name. Rules and records have it.
func (o *RegisteredTool) OriginalName() string {
	if o.original != "" {
		return o.original
	}
	return o.Name
}

// Served returns the tool as its server has it, without the words of its owner.
func (o *RegisteredTool) Served() *tool.Tool {
	if o.served != nil {
		return o.served
	}
	return o.Tool
}

// withWords returns an offer whose tools have the words of a person. A name that the person gave to
// a tool is not that of any other one, also if that came later, or the first is not there.
func (o *offer) withWords(owner ownerRules) *offer {
	if len(owner.words) == 0 {
		return o
	}
	names := map[string]string{} // of tools that are called otherwise, by their original names
	mentions := map[string]string{}
	worded := false
	for i := range o.tools {
		original := o.tools[i].Name
		w, ok := owner.words[original]
		worded = worded || ok
		if name := w.Name; name != "" {
			names[original] = name
		} else if owner.names[original] != "" {
			names[original] = fullName("", original+"_"+hash8(o.ID+" "+o.tools[i].Tool.Name))
		}
		if names[original] != "" && strings.ContainsAny(original, nameSeparators) {
			mentions[original] = names[original]
		}
	}
	if !worded && len(names) == 0 {
		return o
	}
	next := o.withRef(o.ProviderRef)
	for i := range next.tools {
		original := o.tools[i].Name
		next.tools[i].reword(names[original], owner.words[original], mentions)
	}
	return next
}

// reword gives a tool a name, if it is not empty, and other words. Tools that its provider mentions
// in the description get the names by which a model finds them in its list.
func (o *RegisteredTool) reword(name string, w store.ToolWords, mentions map[string]string) {
	text, mentioned := replaceNames(o.Description, mentions)
	if name == "" && w.Title == "" && w.Description == "" && !mentioned {
		return
	}
	if name != "" {
		o.original, o.Name = o.Name, name
	}
	t := *o.Tool // a copy: the list of the provider is shared
	t.Title, t.Description = cmp.Or(w.Title, t.Title), cmp.Or(w.Description, text)
	o.served, o.Tool = o.Tool, &t
	o.cache.Store(nil)
}

// shownName returns the name of a tool in the list of this caller.
func (v *View) shownName(name string) string {
	if shown := v.shown[name]; shown != "" {
		return shown
	}
	return name
}

// originalName returns the original name of a tool that is called by some name, for records.
func (v *View) originalName(name string) string {
	shown := v.shownName(name)
	if t := v.byName[shown]; t != nil {
		return t.OriginalName()
	}
	if hidden, ok := v.hidden[shown]; ok {
		return hidden.original
	}
	return name
}

// OriginalName returns the original name of a tool that a person names, by its original name or the
// person's own. Everything else is returned unchanged.
func (h *Hub) OriginalName(person, name string) string {
	return h.catalog.snapshot(person).originalName(name)
}

func (s *snapshot) originalName(name string) string {
	if original := s.rules.names[name]; original != "" {
		return original
	}
	if len(s.rules.names) == 0 {
		return name
	}
	for _, o := range s.offers {
		for i := range o.tools {
			if t := &o.tools[i]; t.Name == name {
				return t.OriginalName()
			}
		}
	}
	return name
}

// OriginalNames is [Hub.OriginalName] for a list that may have patterns. These stay: they match
// original names.
func (h *Hub) OriginalNames(person string, list []string) []string {
	var out []string
	for _, name := range list {
		out = append(out, h.OriginalName(person, name))
	}
	return out
}

// NameTaken returns the original name of a tool that keeps a person from giving another one a name:
// it has that name, or had it before it was renamed. It is empty if there is none.
func (h *Hub) NameTaken(person, original, name string) string {
	s := h.catalog.snapshot(person)
	if other := s.rules.names[name]; other != "" && other != original {
		return other
	}
	if _, ok := s.rules.words[name]; ok && name != original {
		return name
	}
	for _, o := range s.offers {
		for i := range o.tools {
			t := &o.tools[i]
			if other := t.OriginalName(); other != original && (t.Name == name || other == name) {
				return other
			}
		}
	}
	return ""
}
