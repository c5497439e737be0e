package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
)

// Environment variables that have the prefix of settings but are none: the path of the file, and
// what the command line uses to reach a running server.
const (
	EnvConfig = envPrefix + "CONFIG"
	EnvServer = envPrefix + "SERVER"
	EnvKey    = envPrefix + "KEY"
	// EnvPassphrase is used by backup create and backup restore.
	EnvPassphrase = envPrefix + "BACKUP_PASSPHRASE"
)

const (
	envPrefix = "PATCHBAY_"
	// fileKey, fileEnv and fileFlag are the suffixes of the names that read a secret from a file.
	fileKey  = "_file"
	fileEnv  = "_FILE"
	fileFlag = "-file"
)

// Type names the form of a key's value.
type Type string

// Types of keys.
const (
	Text     Type = "text"
	Path     Type = "path"
	Number   Type = "number"
	Bool     Type = "true/false"
	Duration Type = "duration"
	Bytes    Type = "size"
	List     Type = "list"
)

// Key describes one setting. A secret key has additional names for a file to read it from:
// Path+"_file" in the file and in [Sources.Flags], Env+"_FILE", and Flag+"-file".
type Key struct {
	Path    string // in the file, for example database.url
	Env     string // PATCHBAY_DATABASE_URL
	Flag    string // --database-url
	Type    Type
	Default string // text form; empty for no text, an empty list, or a value determined at start
	Range   string // the allowed values, such as "1 to 1000"; empty if any
	Doc     string
	Secret  bool

	index    []int // of the field in Config
	min, max any   // nil means no limit
	oneOf    []string
}

// group is a branch of the tree.
type group struct {
	name, doc string
}

// tree has the keys in the order of the struct's fields, and their groups.
type tree struct {
	keys   []*Key
	groups map[string]group
	byPath map[string]*Key
	byEnv  map[string]*Key
}

// known is read-only.
var known = newTree()

// Keys returns all settings in the order in which they are documented. The caller owns the slice.
func Keys() []Key {
	keys := make([]Key, len(known.keys))
	for i, k := range known.keys {
		keys[i] = *k
	}
	return keys
}

// newTree reads the tags of Config. It panics on invalid tags, so that every test of this package
// finds them.
func newTree() *tree {
	t := &tree{
		groups: map[string]group{},
		byPath: map[string]*Key{},
		byEnv:  map[string]*Key{},
	}
	t.walk(reflect.TypeFor[Config](), "", nil)
	return t
}

func (t *tree) walk(typ reflect.Type, prefix string, index []int) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		path := prefix + f.Tag.Get("key")
		at := append(slices.Clone(index), i)
		if f.Type.Kind() == reflect.Struct {
			t.groups[path] = group{name: path, doc: f.Tag.Get("doc")}
			t.walk(f.Type, path+".", at)
			continue
		}
		k := newKey(path, f, at)
		t.keys = append(t.keys, k)
		t.byPath[k.Path] = k
		t.byEnv[k.Env] = k
	}
}

func newKey(path string, f reflect.StructField, index []int) *Key {
	k := &Key{
		Path:   path,
		Env:    envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_")),
		Flag:   "--" + strings.NewReplacer(".", "-", "_", "-").Replace(path),
		Type:   typeOf(f),
		Doc:    f.Tag.Get("doc"),
		Secret: f.Tag.Get("secret") == "true",
		index:  index,
	}
	if flag := f.Tag.Get("flag"); flag != "" {
		k.Flag = flag
	}
	if choices := f.Tag.Get("oneof"); choices != "" {
		if k.oneOf = strings.Split(choices, ","); choices == "languages" {
			k.oneOf = languages()
		}
		k.Range = joinOr(k.oneOf)
	}
	k.Default = k.text(k.must(f.Tag.Get("default")))
	if lo, hi := f.Tag.Get("min"), f.Tag.Get("max"); lo != "" && hi != "" {
		k.min, k.max = k.must(lo), k.must(hi)
		k.Range = k.text(k.min) + " to " + k.text(k.max)
	}
	return k
}

// languages returns the codes of the languages that there is a translation into.
func languages() []string {
	var list []string
	for _, l := range i18n.Languages() {
		list = append(list, string(l))
	}
	return list
}

// must parses a value in a tag.
func (k *Key) must(text string) any {
	v, ok := k.parse(text)
	if !ok {
		panic(fmt.Sprintf("config: tag of %s holds %q", k.Path, text))
	}
	return v
}

func typeOf(f reflect.StructField) Type {
	switch f.Type {
	case reflect.TypeFor[string]():
		if f.Tag.Get("path") == "true" {
			return Path
		}
		return Text
	case reflect.TypeFor[int]():
		return Number
	case reflect.TypeFor[bool]():
		return Bool
	case reflect.TypeFor[time.Duration]():
		return Duration
	case reflect.TypeFor[Size]():
		return Bytes
	case reflect.TypeFor[[]string]():
		return List
	}
	panic("config: field " + f.Name + " has a type that no setting can have")
}

// of returns the key's value in c.
func (k *Key) of(c *Config) any {
	return reflect.ValueOf(c).Elem().FieldByIndex(k.index).Interface()
}

func joinOr(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
