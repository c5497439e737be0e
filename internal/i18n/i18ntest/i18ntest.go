// Package i18ntest compares the translations with the texts of the program, for tests.
package i18ntest

import (
	"cmp"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/i18n"
)

// Contexts of texts that are no constants of type [i18n.Message]; each has a test of its own.
const (
	Help          = "help"          // of the command line
	Configuration = "configuration" // problems with settings
	Tools         = "tool"          // titles and descriptions of Patchbay's own tools
	Arguments     = "argument"      // names of their arguments, and values to choose from
)

var update = flag.Bool("update-translations", false,
	"add the texts that the translations lack, without their translation, and remove those that are not used any more")

// Check fails the test if a language lacks one of the texts, has one that is not among them, or
// has other verbs in it. The texts have the context; if it is empty, any but the contexts above.
// The value is the folder of the text, for translators. Root is the folder of go.mod. With the flag
// -update-translations it changes the files instead.
func Check(t *testing.T, root, context string, texts map[i18n.Message]string) {
	t.Helper()
	for _, lang := range i18n.Languages() {
		if lang == i18n.English {
			continue
		}
		for m := range texts {
			translated, ok := i18n.Lookup(lang, m)
			switch english := m.In(i18n.English); {
			case !ok:
				t.Errorf("%s.po lacks %q", lang, m)
			case context == "" && !slices.Equal(Verbs(english), Verbs(translated)):
				t.Errorf("%s.po has other verbs in %q: %q", lang, m, translated)
			}
		}
		for m := range i18n.Translations(lang) {
			if _, ok := texts[m]; !ok && inContext(m, context) {
				t.Errorf("%s.po has %q, which is not used", lang, m)
			}
		}
		if *update { // also if only folders have changed
			rewrite(t, root, lang, context, texts)
		}
	}
}

// inContext reports whether a message has a context; an empty one stands for all but those with a
// test of their own.
func inContext(m i18n.Message, context string) bool {
	of, _, found := strings.Cut(string(m), i18n.ContextEnd)
	if context == "" {
		return !found || of != Help && of != Configuration && of != Tools && of != Arguments
	}
	return found && of == context
}

// entry is a message in a PO file.
type entry struct {
	folder, text string
	message      i18n.Message
}

var folderLine = regexp.MustCompile(`(?m)^#: (.*)$`)

// rewrite writes a PO file anew, with the texts of one context. The others stay.
func rewrite(t *testing.T, root string, lang i18n.Lang, context string, texts map[i18n.Message]string) {
	t.Helper()
	file := filepath.Join(root, "internal/i18n/translations", string(lang)+".po")
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[i18n.Message]string{}
	header, rest, _ := strings.Cut(string(old), "\n\n")
	for block := range strings.SplitSeq(rest, "\n\n") {
		if m := parseID(block); !inContext(m, context) {
			if found := folderLine.FindStringSubmatch(block); found != nil {
				all[m] = found[1]
			}
		}
	}
	maps.Copy(all, texts)
	var list []entry
	for m, folder := range all {
		translated, _ := i18n.Lookup(lang, m)
		list = append(list, entry{folder, translated, m})
	}
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.folder, b.folder), cmp.Compare(a.message, b.message))
	})
	var b strings.Builder
	b.WriteString(header + "\n")
	for _, e := range list {
		b.WriteString("\n#: " + e.folder + "\n")
		id := string(e.message)
		if of, text, found := strings.Cut(id, i18n.ContextEnd); found {
			b.WriteString("msgctxt " + quote(of))
			id = text
		}
		b.WriteString("msgid " + quote(id) + "msgstr " + quote(e.text))
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil { //nolint:gosec // source
		t.Fatal(err)
	}
	t.Logf("%s is written anew; empty texts in it are to be translated", file)
}

// parseID returns the message of a block of a PO file.
func parseID(block string) i18n.Message {
	var context, id, into = "", "", (*string)(nil)
	found := false
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		quoted := line
		switch keyword, rest, _ := strings.Cut(line, " "); keyword {
		case "msgctxt":
			into, quoted, found = &context, rest, true
		case "msgid":
			into, quoted = &id, rest
		case "msgstr":
			into = nil
		}
		if text, err := strconv.Unquote(quoted); err == nil && into != nil {
			*into += text
		}
	}
	if found {
		return i18n.Message(context + i18n.ContextEnd + id)
	}
	return i18n.Message(id)
}

// quote writes a text as in PO files: several lines each on a line of its own.
func quote(text string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)
	if !strings.Contains(strings.TrimSuffix(text, "\n"), "\n") {
		return `"` + escape.Replace(text) + "\"\n"
	}
	var b strings.Builder
	b.WriteString("\"\"\n")
	for line := range strings.Lines(text) {
		b.WriteString(`"` + escape.Replace(line) + "\"\n")
	}
	return b.String()
}

var verb = regexp.MustCompile(`%(?:\[(\d+)\])?[-+# 0]*\d*(?:\.\d+)?([a-zA-Z])`)

// Verbs returns the placeholders of a text, by argument number.
func Verbs(text string) []string {
	var list []string
	next := 1
	for _, m := range verb.FindAllStringSubmatch(strings.ReplaceAll(text, "%%", ""), -1) {
		if m[1] != "" {
			next, _ = strconv.Atoi(m[1])
		}
		list = append(list, strconv.Itoa(next)+m[2])
		next++
	}
	slices.Sort(list)
	return slices.Compact(list)
}
