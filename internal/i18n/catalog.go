package i18n

import (
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leonelquinteros/gotext"
)

// files has a PO file for each language but English, named by the language; nil: none.
var files fs.FS

// Register sets the translations. Package translations calls it when a program begins, before any
// text is translated. Tests need not: they read the files in the source tree.
func Register(f fs.FS) { files = f }

// sourceFiles returns the translations in the source tree. Tests run in the folders of their
// packages.
func sourceFiles() fs.FS {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return os.DirFS(filepath.Join(dir, "internal", "i18n", "translations"))
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	panic("i18n: a test has to run in the source tree, or to import the translations")
}

// catalog is a PO file.
type catalog struct {
	tag         string // of BCP 47
	name        string // of the language, in that language
	englishName string
	texts       map[Message]string
}

// catalogs has a catalog for each language but English. A catalog is parsed when it is needed
// first.
var catalogs = sync.OnceValue(func() map[Lang]func() *catalog {
	if files == nil && testing.Testing() {
		files = sourceFiles()
	}
	list := map[Lang]func() *catalog{}
	if files == nil {
		return list
	}
	names, err := fs.Glob(files, "*.po")
	if err != nil {
		panic(err) // the pattern is valid
	}
	for _, name := range names {
		list[Lang(strings.TrimSuffix(name, ".po"))] = sync.OnceValue(func() *catalog {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				panic(err) // embedded
			}
			return parse(text)
		})
	}
	return list
})

// parse reads a PO file. Messages without a translation are left out.
func parse(text []byte) *catalog {
	po := gotext.NewPo()
	po.Parse(text)
	c := &catalog{
		tag:         strings.ReplaceAll(po.Language, "_", "-"),
		name:        po.GetDomain().Headers.Get("X-Native-Name"),
		englishName: po.GetDomain().Headers.Get("X-English-Name"),
		texts:       map[Message]string{},
	}
	for id, t := range po.GetDomain().GetTranslations() {
		if t.IsTranslated() && id != "" {
			c.texts[Message(id)] = t.Get()
		}
	}
	for context, list := range po.GetDomain().GetCtxTranslations() {
		for id, t := range list {
			if t.IsTranslated() {
				c.texts[Message(context+ContextEnd+id)] = t.Get()
			}
		}
	}
	return c
}

// languages are all languages: English, and the others by code.
var languages = sync.OnceValue(func() []Lang {
	list := []Lang{English}
	for lang := range catalogs() {
		list = append(list, lang)
	}
	slices.Sort(list[1:])
	return list
})

// Languages returns all languages that there is a translation into: English first, and the others
// by code.
func Languages() []Lang { return slices.Clone(languages()) }

// IsLanguage reports whether there is a translation into a language.
func IsLanguage(l Lang) bool { return slices.Contains(languages(), l) }

// Lookup returns the translation of a message into a language, if there is one. It is for texts
// that are not constants of the program.
func Lookup(l Lang, m Message) (text string, ok bool) {
	if l == English {
		return m.english(), true
	}
	if c := catalogs()[l]; c != nil {
		text, ok = c().texts[m]
	}
	return text, ok
}

// Translations returns the texts of all messages in a language, but English.
func Translations(l Lang) iter.Seq2[Message, string] {
	if c := catalogs()[l]; c != nil {
		return maps.All(c().texts)
	}
	return maps.All(map[Message]string(nil))
}

// english returns the text of a message without its context.
func (m Message) english() string {
	if _, text, found := strings.Cut(string(m), ContextEnd); found {
		return text
	}
	return string(m)
}

// Name returns the name of the language in that language, such as "中文".
//
// The translation itself says it: the table of all languages in golang.org/x/text/language/display
// is 2 MB of the program.
func (l Lang) Name() string {
	if c := catalogs()[l]; c != nil {
		return c().name
	}
	return "English"
}

// EnglishName returns the name of the language in English.
func (l Lang) EnglishName() string {
	if c := catalogs()[l]; c != nil {
		return c().englishName
	}
	return "English"
}

// IsWide reports whether the characters of the language are about twice as wide as Latin ones.
func (l Lang) IsWide() bool { return slices.Contains([]Lang{"ja", "ko", "zh"}, l) }

// Tag returns the language as a tag of BCP 47, with the region whose form of it the translation
// has, for the HTML attribute lang.
func (l Lang) Tag() string {
	if c := catalogs()[l]; c != nil {
		return c().tag
	}
	return string(l)
}
